"""Tests wait on signals and conditions (tests/waiting.py), never for a while: a sleep is too long or too short."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.house import ROOT, called, files, imports, place, tree

SLEEPS = {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}
MAY_SLEEP = ROOT / "tests" / "waiting.py"


def sleeps(module: ast.Module) -> Iterator[int]:
    """Calls that sleep, and imports that would let one hide. sleep(0) only gives others their turn."""
    yield from (line for line, name in imports(module) if name in SLEEPS)
    for node in ast.walk(module):
        if called(node) in SLEEPS and isinstance(node, ast.Call) and not gives_way(node):
            yield node.lineno


def gives_way(call: ast.Call) -> bool:
    return len(call.args) == 1 and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0


def test_no_test_sleeps() -> None:
    seen: list[Path] = [path for path in files("tests") if path != MAY_SLEEP]
    assert len(seen) >= 8
    found = [place(path, line) for path in seen for line in sleeps(tree(path))]
    assert not found, "wait for what should happen, with wait_until or an event:\n" + "\n".join(found)


def test_the_helper_is_the_one_that_sleeps() -> None:
    assert list(sleeps(tree(MAY_SLEEP)))


@pytest.mark.parametrize(
    "sample", ["time.sleep(0.1)", "await asyncio.sleep(n)", "from time import sleep", "asyncio.sleep(delay=1)"]
)
def test_a_sleep_is_caught(sample: str) -> None:
    assert list(sleeps(ast.parse(sample)))


def test_giving_way_is_no_sleep() -> None:
    assert not list(sleeps(ast.parse("await asyncio.sleep(0)")))
