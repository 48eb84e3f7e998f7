"""What a middleware needs of the app whose store it uses."""

from __future__ import annotations

from typing import Protocol

from headrace.core.ports import Driver


class App(Protocol):
    """`Headrace`."""

    @property
    def driver(self) -> Driver:
        """The store with its connection."""
        ...

    def new_id(self) -> str:
        """A text that nobody else makes."""
        ...
