"""Files under 400 lines, function bodies of at most 40: what does not fit one screen does not fit one head."""

import ast
from pathlib import Path

from tests.tidy.house import OUR_CODE, files, place, tree

FILE_LINES = 400
BODY_LINES = 40


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement to the last; a docstring is not counted."""
    body = function.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        body = body[1:]
    if not body:
        return 0
    decorators = getattr(body[0], "decorator_list", [])
    start: int = min([body[0].lineno, *(decorator.lineno for decorator in decorators)])
    return int(body[-1].end_lineno or start) - start + 1


def functions(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_are_short() -> None:
    seen = files(*OUR_CODE, suffixes=(".py", ".sql", ".lua"))
    assert len(seen) >= 20
    long = {place(path): lines for path in seen if (lines := line_count(path)) >= FILE_LINES}
    assert not long, f"files of {FILE_LINES} lines or more, to be divided: {long}"


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_function_bodies_are_short() -> None:
    seen = [(path, function) for path in files(*OUR_CODE) for function in functions(tree(path))]
    assert len(seen) >= 100
    long = [
        f"{place(path, function.lineno)} {function.name}: {lines} lines"
        for path, function in seen
        if (lines := body_lines(function)) > BODY_LINES
    ]
    assert not long, f"function bodies of more than {BODY_LINES} lines, to be divided:\n" + "\n".join(long)


def test_a_body_is_counted_without_its_docstring() -> None:
    module = ast.parse(
        'def one():\n    """Say\n\n    more."""\n    a = 1\n\n    return a\n\ndef none():\n    """Only this."""\n'
    )
    assert [body_lines(function) for function in functions(module)] == [3, 0]
