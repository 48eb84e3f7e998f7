"""Unique keys: at most one unfinished job of a queue holds one."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Literal

import msgspec

from headrace.core.durations import micros
from headrace.errors import ConfigError, InvalidArguments

MAX_KEY = 500  # characters
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


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
        if self.key == "":
            raise ConfigError("unique: key is '': leave unique= out, or give a template like 'order-{order_id}'")
        if isinstance(self.key, str):
            template_names(self.key)
        elif not callable(self.key):
            raise ConfigError(
                f"unique: key is {self.key!r}: it must be a template like 'order-{{order_id}}', or a callable"
            )

    @property
    def lifetime_us(self) -> int:
        """The lifetime in microseconds."""
        return micros(self.lifetime)

    def check_names(self, known: Collection[str]) -> None:
        """Refuse a template that names an argument the task does not have.

        Raises:
            ConfigError: it does.
        """
        unknown = template_names(self.key) - set(known) if isinstance(self.key, str) else set()
        if unknown:
            raise ConfigError(
                f"unique: the key {self.key!r} names {', '.join(sorted(unknown))}, "
                f"the arguments are {', '.join(known) or 'none'}"
            )

    def render(self, arguments: Mapping[str, Any]) -> str:
        """The key of one call.

        Raises:
            InvalidArguments: the template or callable fails on these arguments, or makes no str of 1 to 500
                characters without NUL.
        """
        try:
            key = self.key.format_map(arguments) if isinstance(self.key, str) else self.key(**arguments)
        except Exception as error:
            raise InvalidArguments(
                f"the unique key {self.key!r} cannot be made from these arguments: {error!r}"
            ) from error
        if type(key) is not str or not 1 <= len(key) <= MAX_KEY:
            raise InvalidArguments(f"the unique key must be a str of 1 to {MAX_KEY} characters, not {str(key)[:80]!r}")
        if _UNSTORABLE.search(key):
            raise InvalidArguments(
                f"the unique key {key[:80]!r} holds a NUL character or half of a surrogate pair, which not every store "
                "can keep: make it of other characters"
            )
        return key


def template_names(template: str) -> set[str]:
    """The argument names in a template.

    Raises:
        ConfigError: it holds anything but plain names: no attribute, index, conversion or nested field.
    """
    names = set()
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(
            f"unique: the key {template!r} is no template ({error}): double the braces that are meant"
        ) from None
    for _, name, spec, conversion in fields:
        if name is None:
            continue
        # keys come from arguments, so they must not reach beyond the argument itself
        if not name.isidentifier() or conversion or "{" in (spec or ""):
            raise ConfigError(
                f"unique: the key {template!r} may hold argument names in braces only, not {{{name}}}; use a callable"
            )
        names.add(name)
    return names
