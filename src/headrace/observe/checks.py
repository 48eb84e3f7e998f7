"""Settings of rules and sinks, checked as they are given: each mistake is named with the key, the value and the fix."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from headrace.core.durations import Duration, seconds
from headrace.errors import ConfigError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def check_text(field: str, value: object, *, most: int = 200) -> None:
    """A text of at least one character.

    Raises:
        ConfigError: it is none, or longer than `most`, or holds a character that cannot be printed.
    """
    if type(value) is not str or not value or len(value) > most or not value.isprintable():
        raise ConfigError(f"{field} is {value!r:.100}: give 1 to {most} printable characters")


def check_texts(field: str, value: object) -> tuple[str, ...]:
    """One text, or several.

    Raises:
        ConfigError: it is neither.
    """
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts:
        raise ConfigError(f"{field} is {value!r:.100}: give one text, or a list of texts")
    for text in texts:
        check_text(field, text)
    return tuple(texts)


def check_whole(field: str, value: object, least: int, most: int) -> None:
    """A whole number in a range.

    Raises:
        ConfigError: it is none.
    """
    if type(value) is not int or not least <= value <= most:
        raise ConfigError(f"{field} is {value!r:.100}: give a whole number from {least:,} to {most:,}")


def check_flag(field: str, value: object) -> None:
    """True or false.

    Raises:
        ConfigError: it is neither.
    """
    if type(value) is not bool:
        raise ConfigError(f"{field} is {value!r:.100}: give true or false")


def check_choice(field: str, value: object, known: Collection[str]) -> None:
    """One of a few words.

    Raises:
        ConfigError: it is none of them.
    """
    if type(value) is not str or value not in known:
        raise ConfigError(f"{field} is {value!r:.100}: give one of {', '.join(map(repr, known))}")


def check_variable(field: str, value: object) -> None:
    """The name of an environment variable.

    Raises:
        ConfigError: it cannot be one. The value is not shown: it may be the secret itself, written in the wrong place.
    """
    if type(value) is not str or not _VARIABLE.match(value):
        raise ConfigError(f"{field} is not the name of an environment variable: give one, such as 'SMTP_PASSWORD'")


def check_span(field: str, value: Duration, least_s: float = 0.0) -> None:
    """A duration above 0.

    Raises:
        ConfigError: it is none, or shorter than `least_s`.
    """
    found = seconds(value, field)
    if found <= 0 or found < least_s:
        raise ConfigError(f"{field} is {value!r}: it must be {f'at least {least_s:g} s' if least_s else 'more than 0'}")


def secret(variable: str) -> str | None:
    """What an environment variable holds; None where it is not set, or empty."""
    return os.environ.get(variable) or None
