"""Progress of long work on standard error: a bar with rich, a counting line without, nothing where nobody looks."""

from __future__ import annotations

import sys
from typing import Any, Protocol, Self

import click


class Progress(Protocol):
    """`update` as work goes on; used as a context manager."""

    def update(self, done: int, total: int | None = None) -> None:
        """So many of so many (None: unknown) are done."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def progress(what: str, total: int | None = None) -> Progress:
    """The best that this terminal can show."""
    if not sys.stderr.isatty():
        return Silent()
    try:
        return Bar(what, total)
    except ImportError:
        return Line(what, total)


class Silent:
    """Nobody looks."""

    def update(self, done: int, total: int | None = None) -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to clear."""


class Line:
    """`retrying 1200/5000`, written over itself."""

    def __init__(self, what: str, total: int | None) -> None:
        self.what = what
        self.total = total

    def update(self, done: int, total: int | None = None) -> None:
        """Rewrite the line."""
        self.total = total if total is not None else self.total
        of = f"/{self.total}" if self.total is not None else ""
        click.echo(f"\r{self.what} {done}{of}", err=True, nl=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the line, so that what follows stands on its own."""
        click.echo("", err=True)


class Bar:
    """The same with rich.

    Raises:
        ImportError: rich is not installed (it comes with `headrace[cli]`).
    """

    def __init__(self, what: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
        self._bar = RichProgress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task(what, total=total)

    def update(self, done: int, total: int | None = None) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
