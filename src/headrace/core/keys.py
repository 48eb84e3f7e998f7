"""Keys that are made from a call's arguments, by a template or a callable."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.core.durations import micros
from headrace.errors import ConfigError, InvalidArguments

MAX_KEY = 500  # characters
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Key = str | Callable[..., str]


class Keyed:
    """What policies have in common that make a key of a call; mixed into them."""

    __slots__ = ()
    option: ClassVar[str]  # its name, for messages
    example: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def key(self) -> Key: ...
        @property
        def lifetime(self) -> timedelta | float | str: ...

    def check(self) -> None:
        """Refuse a key or a lifetime that can be none.

        Raises:
            ConfigError: it is.
        """
        if micros(self.lifetime, f"{self.option}: lifetime") <= 0:
            raise ConfigError(f"{self.option}: lifetime is {self.lifetime!r}: it must be greater than 0")
        check(self.key, self.option, self.example)

    @property
    def lifetime_us(self) -> int:
        """The lifetime in microseconds."""
        return micros(self.lifetime)

    def check_names(self, known: Collection[str]) -> None:
        """Refuse a template that names an argument the task does not have.

        Raises:
            ConfigError: it does.
        """
        unknown = template_names(self.key, self.option) - set(known) if isinstance(self.key, str) else set()
        if unknown:
            raise ConfigError(
                f"{self.option}: the key {self.key!r} names {', '.join(sorted(unknown))}, "
                f"the arguments are {', '.join(known) or 'none'}"
            )

    def render(self, arguments: Mapping[str, Any]) -> str:
        """The key of one call.

        Raises:
            InvalidArguments: the template or callable fails on these arguments, or makes no str of 1 to 500
                characters without NUL.
        """
        return render(self.key, arguments, self.option)


def check(key: Key, what: str, example: str) -> None:
    """Refuse what can make no key. `what` is the option's name, for the message.

    Raises:
        ConfigError: it is neither a template nor a callable, is empty, or reaches beyond the arguments themselves.
    """
    if key == "":
        raise ConfigError(f"{what}: key is '': leave {what}= out, or give a template like {example!r}")
    if isinstance(key, str):
        template_names(key, what)
    elif not callable(key):
        raise ConfigError(f"{what}: key is {key!r}: it must be a template like {example!r}, or a callable")


def render(key: Key, arguments: Mapping[str, Any], what: str) -> str:
    """The key of one call.

    Raises:
        InvalidArguments: the template or callable fails on these arguments, or makes no str of 1 to 500 characters
            without NUL.
    """
    try:
        made = key.format_map(arguments) if isinstance(key, str) else key(**arguments)
    except Exception as error:
        raise InvalidArguments(f"the {what} key {key!r} cannot be made from these arguments: {error!r}") from error
    return checked(made, what)


def checked(key: object, what: str) -> str:
    """A key that every store can keep.

    Raises:
        InvalidArguments: it is no str of 1 to 500 characters without NUL.
    """
    return storable(key, f"{what} key", least=1, most=MAX_KEY)


def storable(text: object, name: str, *, least: int, most: int) -> str:
    """A text that every store can keep. `name` is for the message, `least` and `most` count characters.

    Raises:
        InvalidArguments: it is no str of that length without NUL and lone surrogates.
    """
    if type(text) is not str or not least <= len(text) <= most:
        raise InvalidArguments(f"the {name} must be a str of {least} to {most} characters, not {str(text)[:80]!r}")
    if _UNSTORABLE.search(text):
        raise InvalidArguments(
            f"the {name} {text[:80]!r} holds a NUL character or half of a surrogate pair, which not every store "
            "can keep: make it of other characters"
        )
    return text


def template_names(template: str, what: str) -> set[str]:
    """The argument names in a template.

    Raises:
        ConfigError: it holds anything but plain names: no attribute, index, conversion or nested field.
    """
    names = set()
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(
            f"{what}: the key {template!r} is no template ({error}): double the braces that are meant"
        ) from None
    for _, name, spec, conversion in fields:
        if name is None:
            continue
        # keys come from arguments, so they must not reach beyond the argument itself
        if not name.isidentifier() or conversion or "{" in (spec or ""):
            raise ConfigError(
                f"{what}: the key {template!r} may hold argument names in braces only, not {{{name}}}; use a callable"
            )
        names.add(name)
    return names
