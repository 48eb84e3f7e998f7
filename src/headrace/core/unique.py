"""Unique keys: at most one unfinished job of a queue holds one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Literal

import msgspec

from headrace.core import keys
from headrace.core.durations import micros
from headrace.errors import ConfigError


class Unique(msgspec.Struct, frozen=True):
    """While an unfinished job holds the key, another enqueue with it answers with that job's id.

    `key` is a template over argument names ("order-{order_id}"; braces that are meant are doubled), or a callable
    that takes the arguments and returns a str. `until`: the key is free when the job has ended ("end") or when it
    first starts ("start"). `lifetime` (default 24 h) cleans up after jobs that have vanished: a live job keeps
    its key for longer. A key counts within one queue.

    Raises:
        ConfigError: the template is empty or reaches into arguments (`{order.id}`), or a value is out of range.
    """

    key: str | Callable[..., str]
    until: Literal["end", "start"] = "end"
    lifetime: timedelta | float | str = timedelta(hours=24)

    def __post_init__(self) -> None:
        if self.until not in ("end", "start"):
            raise ConfigError(f"unique: until is {self.until!r}: it must be 'end' or 'start'")
        if micros(self.lifetime, "unique: lifetime") <= 0:
            raise ConfigError(f"unique: lifetime is {self.lifetime!r}: it must be greater than 0")
        keys.check(self.key, "unique", "order-{order_id}")

    @property
    def lifetime_us(self) -> int:
        """The lifetime in microseconds."""
        return micros(self.lifetime)

    def check_names(self, known: Collection[str]) -> None:
        """Refuse a template that names an argument the task does not have.

        Raises:
            ConfigError: it does.
        """
        keys.check_names(self.key, known, "unique")

    def render(self, arguments: Mapping[str, Any]) -> str:
        """The key of one call.

        Raises:
            InvalidArguments: the template or callable fails on these arguments, or makes no str of 1 to 500
                characters without NUL.
        """
        return keys.render(self.key, arguments, "unique")
