"""Asking an upstream until its answer is final: when the next query is, and when to stop asking.

Queries are counted from 0, delays from the first one that follows a query. The schedule of "alipay" is that of Alipay's
asynchronous notifications, 8 calls within about 24 h 24 min; that of "standard-webhooks" is the example of the Standard
Webhooks specification, 10 calls within about 75 h 35 min.
"""

from __future__ import annotations

from typing import cast

import msgspec
from msgspec.structs import replace

from headrace.core.backoff import Backoff, Exponential, Fixed, Listed, Random, Stepped
from headrace.core.durations import Duration, micros, seconds
from headrace.core.ids import following
from headrace.core.retry import BACKOFFS, Retry
from headrace.core.trail import Trail
from headrace.errors import ConfigError

SECOND = 1_000_000
TIMED_OUT = "timed out"  # the reason of a poll that ends without a final answer

# Delays and jitter; such a schedule ends after its last delay
PRESETS: dict[str, tuple[tuple[str, ...], float]] = {
    "alipay": (("4m", "10m", "10m", "1h", "2h", "6h", "15h"), 0.0),
    "standard-webhooks": (("5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"), 0.1),
}

# An upstream that is down has not answered yet: only the end of the poll ends the attempts to reach it
RETRY = Retry(max_attempts=None, backoff=Exponential(cap=30))
# Where no moment ends a poll, about five hours without any answer do
RETRY_BOUNDED = Retry(max_attempts=20, backoff=Exponential(cap=3600))


class Polling(msgspec.Struct, frozen=True):
    """When one kind of poll asks, and for how long. Made by `polling`."""

    every: Backoff
    give_up_us: int | None = None  # counted from the enqueue or the last replay; no query starts then or later
    most: int | None = None  # answers in all
    jitter: float = 0.0
    text: str = ""  # the schedule as it was written

    def wait_us(self, polls: int, previous_us: int, rng: Random) -> int | None:
        """How long after answer number `polls` (from 1) the next query is; None when it was the last one."""
        if self.most is not None and polls >= self.most:
            return None
        delay_s = self.every.wait(polls - 1, previous_us / SECOND, rng)
        if self.jitter:
            delay_s *= 1 + rng.uniform(-self.jitter, self.jitter)
        return round(delay_s * SECOND)

    def first_us(self, rng: Random) -> int:
        """How long the first query is put off: at most the share of the first delay that `jitter` names."""
        return round(self.every.wait(0, 0.0, rng) * rng.uniform(0, self.jitter) * SECOND) if self.jitter else 0

    def deadline_us(self, base_us: int) -> int | None:
        """When a poll ends that was enqueued, or replayed, at `base_us`."""
        return None if self.give_up_us is None else base_us + self.give_up_us


def polling(
    every: str | Backoff,
    give_up_after: Duration | None = None,
    max_polls: int | None = None,
    jitter: float | None = None,
    *,
    option: str = "every",
) -> Polling:
    """The options of `@app.poll`, checked. `option` is what the schedule is called where it is given.

    Raises:
        ConfigError: one is out of range, or nothing would ever end the poll.
    """
    schedule, most, spread = _schedule(every, option)
    most = most if max_polls is None else _checked_most(max_polls)
    give_up_us = None if give_up_after is None else micros(give_up_after, "give_up_after")
    if give_up_us == 0:
        raise ConfigError("give_up_after is 0: it must be greater than 0")
    if give_up_us is None and most is None:
        raise ConfigError(
            f"{option} is {every!r}, whose last step repeats for ever: set give_up_after, such as '10m', or max_polls"
        )
    jitter = spread if jitter is None else _checked_jitter(jitter)
    return Polling(schedule, give_up_us, most, jitter, every if isinstance(every, str) else repr(every))


def default_retry(poll: Polling) -> Retry:
    """The policy for errors of a poll that names none."""
    return RETRY_BOUNDED if poll.give_up_us is None else RETRY


def check_retry(poll: Polling, retry: Retry) -> None:
    """Refuse a poll that an upstream which never answers would keep for ever.

    Raises:
        ConfigError: neither a moment nor a number of errors ends it.
    """
    if poll.give_up_us is None and retry.max_attempts is None and retry.max_errors is None:
        raise ConfigError(
            "retry has no limit and the poll no give_up_after: an upstream that only fails would be asked for ever; "
            "set one of the two"
        )


def answered(trail: Trail, delay_us: int) -> Trail:
    """The trail after one more answer: what came before it is no trouble any more."""
    return replace(trail, polls=trail.polls + 1, attempts=0, crashes=0, alone=False, delay_us=delay_us)


def end_id(id: str, base_us: int = 0) -> str:
    """The id of the job that a poll ends with, whichever of its hooks that is: so there is one of them at most.

    `base_us`: the poll's enqueue or last replay.
    """
    return following(id, "/end", base_us)


def _schedule(every: object, option: str) -> tuple[Backoff, int | None, float]:
    if isinstance(every, str):
        if every in PRESETS:
            delays, jitter = PRESETS[every]
            return Listed(delays), len(delays) + 1, jitter
        try:
            every = Stepped(every)
        except ConfigError as error:
            presets = " or ".join(map(repr, PRESETS))
            raise ConfigError(
                f"{option} is {every!r}: use {presets}, or steps such as '1s x5, 30s' ({error})"
            ) from error
    if not isinstance(every, BACKOFFS):
        raise ConfigError(f"{option} is {every!r}: use a text such as '1s x5, 30s', or Stepped, Listed, Fixed")
    if not _shortest_s(every):
        raise ConfigError(f"{option} is {every!r}, with a delay of 0: the upstream would be asked without a pause")
    return every, None, 0.0


def _shortest_s(every: Backoff) -> float:
    match every:
        case Fixed(delay=delay):
            return seconds(delay)
        case Listed(delays=delays):
            return min(map(seconds, delays))
        case Stepped(steps=steps):
            return min(delay for delay, _ in cast("tuple[tuple[float, int], ...]", steps))
    return seconds(every.base)


def _checked_most(most: object) -> int:
    if type(most) is not int or most < 1:
        raise ConfigError(f"max_polls is {most!r}: use a whole number of at least 1")
    return most


def _checked_jitter(jitter: object) -> float:
    if isinstance(jitter, bool) or not isinstance(jitter, (int, float)) or not 0 <= jitter <= 1:
        raise ConfigError(f"jitter is {jitter!r}: it is a share of each delay, from 0 to 1")
    return float(jitter)
