"""Starts the roles of `sqlite_roles` and hears what they say."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def processes(directory: Path) -> Iterator[Start]:
    """`start(role, file, ...)` starts one; whatever still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> "subprocess.Popen[str]":
        said = directory / f"said-{len(started)}"
        with said.open("w") as out, Path(f"{said}.err").open("w") as err:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.process.sqlite_roles", *map(str, words)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                text=True,
            )
        process.said = said  # type: ignore[attr-defined]
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdin:
                process.stdin.close()


def words(process: "subprocess.Popen[str]") -> list[str]:
    """What it has said so far, whole lines only."""
    text: str = process.said.read_text()  # type: ignore[attr-defined]
    return text[: text.rfind("\n") + 1].split()


def ended_well(process: "subprocess.Popen[str]", timeout: float = 60) -> None:
    """Wait for its end, which must be a quiet one."""
    if process.stdin and not process.stdin.closed:
        process.stdin.close()
    status = process.wait(timeout)
    errors = Path(f"{process.said}.err").read_text()  # type: ignore[attr-defined]
    assert not errors, errors
    assert status == 0


def assert_sound(path: Path) -> None:
    """The file itself, and its indexes against its tables."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()


needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
