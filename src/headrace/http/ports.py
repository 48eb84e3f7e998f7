"""What a middleware needs of the app whose store it uses."""

from __future__ import annotations

from typing import Protocol

from headrace.core.ports import Driver
from headrace.errors import ConfigError


class App(Protocol):
    """`Headrace`."""

    @property
    def driver(self) -> Driver:
        """The store with its connection."""
        ...

    def new_id(self) -> str:
        """A text that nobody else makes."""
        ...


def checked_app(app: App) -> App:
    """`app`, if it is one.

    Raises:
        ConfigError: it is something else, such as a URL or the web app itself.
    """
    if not hasattr(type(app), "driver") or not hasattr(app, "new_id"):
        raise ConfigError(f"app is {app!r:.80}: hand over the web app first, then the Headrace that has the store")
    return app
