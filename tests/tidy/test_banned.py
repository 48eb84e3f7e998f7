"""Calls that this code does without, each for a reason, found in the syntax tree. Every rule is shown to catch."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tidy.house import PACKAGE, called, dotted, files, imports, place, room, tree


@dataclass(frozen=True)
class Rule:
    """What is banned, why, where not (rooms, or files within the package), and samples that it must catch."""

    why: str
    find: Callable[[ast.Module], Iterator[int]]
    caught: tuple[str, ...]
    passed: tuple[str, ...] = ()
    except_in: tuple[str, ...] = ()

    def holds_for(self, path: Path) -> bool:
        return room(path) not in self.except_in and path.relative_to(PACKAGE).as_posix() not in self.except_in


def importing(*modules: str) -> Callable[[ast.Module], Iterator[int]]:
    return lambda module: (line for line, name in imports(module) if name.partition(".")[0] in modules)


def calling(*names: str) -> Callable[[ast.Module], Iterator[int]]:
    """Calls by exact name, or by the last two parts of a longer one (datetime.datetime.now)."""

    def find(module: ast.Module) -> Iterator[int]:
        for node in ast.walk(module):
            name = called(node)
            if name in names or ".".join(name.split(".")[-2:]) in names:
                yield node.lineno  # type: ignore[attr-defined]

    return find


def unheeded_errors(module: ast.Module) -> Iterator[int]:
    """A bare except, and an except that does nothing at all."""
    for node in ast.walk(module):
        if isinstance(node, ast.ExceptHandler) and (node.type is None or all(map(says_nothing, node.body))):
            yield node.lineno


def says_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def pasted_sql(module: ast.Module) -> Iterator[int]:
    """Text put together at the place where it is executed."""
    executing = {"execute", "executemany", "executescript", "Statement"}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or dotted(node.func).rpartition(".")[2] not in executing:
            continue
        if node.args and pasted(node.args[0]):
            yield node.lineno


def pasted(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):  # {number:d} can be nothing but a number: PRAGMA takes no parameters
        return any(isinstance(part, ast.FormattedValue) and not only_a_number(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"format", "join"}


def only_a_number(part: ast.FormattedValue) -> bool:
    spec = part.format_spec
    return isinstance(spec, ast.JoinedStr) and [ast.unparse(value) for value in spec.values] == ["'d'"]


RULES = {
    "pickle": Rule(
        "what a store holds is not trusted, and unpickling runs it",
        importing("pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"),
        caught=("import pickle", "from pickle import loads"),
    ),
    "eval": Rule(
        "text is data here, never code",
        calling("eval", "exec", "compile", "builtins.eval", "builtins.exec"),
        caught=("eval('1')", "exec(text)", "builtins.exec(text)"),
        passed=("re.compile('a')", "model.eval()"),
    ),
    "import by name": Rule(
        "a name from data must not choose what is imported; only the user's --app may",
        calling("importlib.import_module", "import_module", "__import__", "pkgutil.resolve_name"),
        caught=("importlib.import_module(name)", "from importlib import import_module\nimport_module(name)"),
        except_in=("cli/locate.py", "worker/children/finding.py"),  # a child is told by the code of its worker
    ),
    "unheeded error": Rule(
        "an error is answered, or suppressed by name with contextlib.suppress",
        unheeded_errors,
        caught=("try: f()\nexcept: g()", "try: f()\nexcept OSError: pass", "try: f()\nexcept OSError: ..."),
        passed=("try: f()\nexcept OSError: g()",),
    ),
    "pasted SQL": Rule(
        "values travel as parameters, and statements live in named files or constants",
        pasted_sql,
        caught=(
            "c.execute(f'select {a}')",
            "c.execute('select %s' % a)",
            "c.execute('select ' + a)",
            "c.execute('select {}'.format(a))",
            "Statement(f'select {a}', {})",
        ),
        passed=("c.execute('select 1')", "c.execute(sql, {'a': 1})", "c.execute(f'pragma busy_timeout = {ms:d}')"),
    ),
    "wall clock": Rule(
        "time comes from outside: the store's clock for leases, an injected one for the rest",
        calling(
            "time.time",
            "time.time_ns",
            "datetime.now",
            "datetime.utcnow",
            "datetime.today",
            "date.today",
            "time.localtime",
        ),
        caught=("time.time()", "datetime.now(UTC)", "datetime.datetime.now()", "date.today()"),
        passed=("time.monotonic()", "clock.now()", "self.time()"),
        except_in=("drivers", "testing", "cli"),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_src_does_without(name: str) -> None:
    rule = RULES[name]
    seen = [path for path in files("src") if rule.holds_for(path)]
    assert len(seen) >= 9
    found = [place(path, line) for path in seen for line in rule.find(tree(path))]
    assert not found, f"{name}: {rule.why}\n" + "\n".join(found)


@pytest.mark.parametrize(("name", "sample"), [(name, text) for name, rule in RULES.items() for text in rule.caught])
def test_the_rule_catches(name: str, sample: str) -> None:
    assert list(RULES[name].find(ast.parse(sample)))


@pytest.mark.parametrize(("name", "sample"), [(name, text) for name, rule in RULES.items() for text in rule.passed])
def test_the_rule_lets_pass(name: str, sample: str) -> None:
    assert not list(RULES[name].find(ast.parse(sample)))
