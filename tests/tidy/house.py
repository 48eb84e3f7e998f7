"""What the tidy tests look at: the files of this project, read and parsed once."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headrace"
OUR_CODE = ("src", "tests", "examples", "bench")
_NOT_OURS = {"__pycache__", "build", "dist", "node_modules"}


def files(*tops: str, suffixes: tuple[str, ...] = (".py",)) -> list[Path]:
    """Files under the named folders of the project, sorted."""
    found = (path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in suffixes and path.is_file())
    return sorted(path for path in found if not _NOT_OURS & set(path.relative_to(ROOT).parts))


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Every file that is, or is about to be, part of the project."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = listing.stdout.decode().split("\0")
    return tuple(path for name in sorted(set(names)) if name and (path := ROOT / name).is_file())


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path, line: int = 0) -> str:
    """A file (and line) as it is written in a message."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{name}:{line}" if line else name


def room(path: Path) -> str:
    """Where in the house a file lives: "core", "stores", "cli" ..., or the file's own name at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a module imports; `from a import b` counts as a.b."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or '.'}.{name.name}") for name in node.names)


def called(node: ast.AST) -> str:
    """The dotted name that a call calls: "time.sleep"; empty for anything else."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return ""
