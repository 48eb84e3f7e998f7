"""Delays and limits as a caller gives them: a duration, or an aware datetime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from headrace.core.durations import micros
from headrace.errors import ConfigError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_US = 10 * 366 * 86_400 * 1_000_000

When = timedelta | float | int | str | datetime


class Moment(msgspec.Struct, frozen=True):
    """Either a duration, which the store adds to its own now, or a moment since the epoch. Microseconds."""

    in_us: int | None = None
    at_us: int | None = None

    def __str__(self) -> str:
        if self.at_us is not None:
            return aware(self.at_us).isoformat(timespec="seconds")
        return str(timedelta(microseconds=self.in_us or 0))

    def later(self, us: int) -> Moment:
        """So much later."""
        if self.at_us is not None:
            return Moment(at_us=self.at_us + us)
        return Moment(in_us=(self.in_us or 0) + us)

    def is_before(self, other: Moment, now_us: Callable[[], int]) -> bool:
        """Whether it comes first. `now_us` is asked only where a duration meets a moment."""
        if self.at_us is not None:
            end_us = (other.in_us or 0) + now_us() if other.at_us is None else other.at_us
            return self.at_us < end_us
        start_us = self.in_us or 0
        return start_us < (other.in_us or 0) if other.at_us is None else start_us + now_us() < other.at_us


def moment(when: When, field: str) -> Moment:
    """Seconds, a timedelta or a text like "5m" as a duration; an aware datetime as a moment.

    Raises:
        ConfigError: a naive datetime, no duration or a negative one, or one beyond 10 years (a timestamp, most likely).
    """
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            # whose clock would it be? Guessing shifts jobs by hours (B143)
            raise ConfigError(
                f"{field} is the naive datetime {when.isoformat()}: give it a time zone, such as datetime.now(UTC)"
            )
        return Moment(at_us=(when - EPOCH) // timedelta(microseconds=1))
    duration_us = micros(when, field)
    if duration_us > LONGEST_US:
        raise ConfigError(f"{field} is {when!r}, a duration of more than 10 years: pass an aware datetime for a moment")
    return Moment(in_us=duration_us)


def limit(when: When | None, field: str) -> Moment | None:
    """The same for a limit: None stays None, and 0 is refused.

    Raises:
        ConfigError: as `moment`, and a duration of 0.
    """
    if when is None:
        return None
    found = moment(when, field)
    if found.in_us == 0:
        raise ConfigError(f"{field} is {when!r}: it must be greater than 0")
    return found


def aware(unix_us: int) -> datetime:
    """A moment as an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=unix_us)
