"""Durations as people write them: 30, 1.5, timedelta(minutes=5), "1h30m", "250ms"."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from headrace.errors import ConfigError

Duration = timedelta | float | int | str

LONGEST_S = 100 * 365.25 * 86_400.0  # what is longer is a mistake, such as milliseconds, or a timestamp in them

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)
_HOW = "give seconds, a timedelta, or a text like '1h30m'"


def seconds(value: Duration, field: str = "the duration") -> float:
    """The duration in seconds. A number means seconds; units of a text are ms, s, m, h, d, w.

    Args:
        value: the duration.
        field: what the error calls it.

    Raises:
        ConfigError: it is no duration, negative, or longer than 100 years.
    """
    number = _number(value)
    if number is None:
        raise ConfigError(f"{field} is {value!r}, which is no duration: {_HOW}")
    if not 0 <= number <= LONGEST_S:  # false for NaN too
        raise ConfigError(f"{field} is {value!r}: it must lie between 0 seconds and 100 years")
    return number


def micros(value: Duration, field: str = "the duration") -> int:
    """The duration in whole microseconds.

    Raises:
        ConfigError: as `seconds`.
    """
    return round(seconds(value, field) * 1_000_000)


def is_text_but_no_duration(text: object) -> bool:
    """Whether it is a text, and none such as "30s"."""
    return isinstance(text, str) and _parse(text) is None


def _number(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _parse(text: str) -> float | None:
    total, position = 0.0, 0
    while match := _PART.match(text, position):
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    return None if position == 0 or text[position:].strip() else total
