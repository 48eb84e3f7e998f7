"""Unique keys: at most one unfinished job of a queue holds one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Literal

import msgspec

from headrace.core.keys import Keyed
from headrace.errors import ConfigError


class Unique(msgspec.Struct, Keyed, frozen=True):
    """While an unfinished job holds the key, another enqueue with it answers with that job's id.

    `key` is a template over argument names ("order-{order_id}"; braces that are meant are doubled), or a callable
    that takes the arguments and returns a str. `until`: the key is free when the job has ended ("end") or when it
    first starts ("start"). `lifetime` (default 24 h) cleans up after jobs that have vanished: a live job keeps
    its key for longer. A key counts within one queue.

    Raises:
        ConfigError: the template is empty or reaches into arguments (`{order.id}`), or a value is out of range.
    """

    option: ClassVar[str] = "unique"
    example: ClassVar[str] = "order-{order_id}"

    key: str | Callable[..., str]
    until: Literal["end", "start"] = "end"
    lifetime: timedelta | float | str = timedelta(hours=24)

    def __post_init__(self) -> None:
        if self.until not in ("end", "start"):
            raise ConfigError(f"unique: until is {self.until!r}: it must be 'end' or 'start'")
        self.check()
