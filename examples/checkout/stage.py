"""What the audience sees: a line per event, and below them the figures of the moment."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

Figures = dict[str, str]


@dataclass(frozen=True)
class Event:
    """One line of the timeline."""

    second: float  # since the curtain rose
    text: str


class Screen(Protocol):
    """Where it is shown."""

    def open(self, figures: Callable[[], Figures]) -> None: ...
    def line(self, text: str) -> None: ...
    def close(self) -> None: ...


class Stage:
    """Keeps the timeline and shows it as it grows."""

    def __init__(self, figures: Callable[[], Figures], screen: Screen | None = None) -> None:
        self.timeline: list[Event] = []
        self._figures = figures
        self._screen = screen or best_screen()
        self._start = time.monotonic()

    @property
    def second(self) -> float:
        """Seconds since the curtain rose."""
        return time.monotonic() - self._start

    def note(self, text: str) -> None:
        """Something happened. Thread-safe."""
        event = Event(self.second, text)
        self.timeline.append(event)
        self._screen.line(f"{event.second:5.1f} s  {text}")

    def __enter__(self) -> Self:
        self._screen.open(self._figures)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._screen.close()


class PlainScreen:
    """Lines only, for files and pipes."""

    EVERY = 3.0  # seconds between two lines of figures

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._ticker: threading.Thread | None = None

    def open(self, figures: Callable[[], Figures]) -> None:
        """Show figures now and then."""

        def tick() -> None:
            while not self._closed.wait(self.EVERY):
                self.line("         " + ", ".join(f"{name} {value}" for name, value in figures().items()))

        self._ticker = threading.Thread(target=tick, daemon=True)
        self._ticker.start()

    def line(self, text: str) -> None:
        """Show a line."""
        print(f"{text}\n", end="", flush=True)  # in one piece, whoever else writes

    def close(self) -> None:
        """Show no more figures."""
        self._closed.set()
        if self._ticker is not None:
            self._ticker.join(timeout=2)


class RichScreen:
    """A terminal: the figures stay at the bottom and change in place."""

    def __init__(self) -> None:
        def draw() -> Table:
            table = Table(expand=False)
            figures = self._figures()
            for name in figures:
                table.add_column(name, justify="right", min_width=9)
            table.add_row(*figures.values())
            return table

        self._figures: Callable[[], Figures] = dict
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, get_renderable=draw, refresh_per_second=5)

    def open(self, figures: Callable[[], Figures]) -> None:
        """Begin to show the figures."""
        self._figures = figures
        self._live.start()

    def line(self, text: str) -> None:
        """Show a line above the figures."""
        self._console.print(text, markup=False)

    def close(self) -> None:
        """Leave the last figures on the screen."""
        self._live.stop()


def best_screen() -> Screen:
    """Rich on a terminal, plain lines elsewhere."""
    return RichScreen() if sys.stdout.isatty() else PlainScreen()
