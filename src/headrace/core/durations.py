"""Durations as people write them: 30, 1.5, timedelta(minutes=5), "1h30m", "250ms"."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from headrace.errors import ConfigError

Duration = timedelta | float | int | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.ASCII)


def seconds(value: Duration) -> float:
    """The duration in seconds. A number means seconds; units of a text are ms, s, m, h, d, w.

    Raises:
        ConfigError: it is no duration, negative, or not finite.
    """
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        number = _parse(value)
    elif type(value) in {int, float}:
        number = float(value)
    else:
        raise ConfigError(f"{value!r} is no duration: give seconds, a timedelta, or a text like '1h30m'")
    if number < 0 or not math.isfinite(number):
        raise ConfigError(f"the duration {value!r} is negative or endless: give 0 or more seconds")
    return number


def micros(value: Duration) -> int:
    """The duration in whole microseconds.

    Raises:
        ConfigError: as `seconds`.
    """
    return round(seconds(value) * 1_000_000)


def _parse(text: str) -> float:
    total, position = 0.0, 0
    while match := _PART.match(text, position):
        total += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if position == 0 or text[position:].strip():
        raise ConfigError(f"{text!r} is no duration: write it like '30s', '1h30m' or '250ms'")
    return total
