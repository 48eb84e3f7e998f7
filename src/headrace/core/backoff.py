"""How long to wait before the next attempt.

All delays are in seconds. `retry` counts from 0: the first retry waits for the first delay. Sources: the AWS
Architecture Blog, "Exponential Backoff and Jitter", 2015, and its simulator, whose n starts at 1 where ours
starts at 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from headrace.core.durations import Duration, seconds
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from random import Random

Jitter = Literal["none", "full", "equal", "decorrelated", "add"]

_STEP = re.compile(r"(?P<delay>\S+?)\s*(?:[x*]\s*(?P<times>\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay each time."""

    delay: Duration

    def __post_init__(self) -> None:
        seconds(self.delay)

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        return seconds(self.delay)


@dataclass(frozen=True, slots=True)
class Listed:
    """One delay after the other; the last repeats."""

    delays: Iterable[Duration]

    def __post_init__(self) -> None:
        object.__setattr__(self, "delays", tuple(seconds(delay) for delay in self.delays))
        if not self.delays:
            raise ConfigError("delays is empty: give at least one")

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        delays = tuple(self.delays)
        return seconds(delays[min(retry, len(delays) - 1)])


@dataclass(frozen=True, slots=True)
class Stepped:
    """Steps with repetitions, as a text or as pairs: "1s x5, 5s x5, 10s x10, 30s". The last step repeats for ever."""

    steps: str | Iterable[tuple[Duration, int]]
    pairs: tuple[tuple[float, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        steps = self.steps
        pairs = (
            parse_steps(steps) if isinstance(steps, str) else tuple((seconds(delay), times) for delay, times in steps)
        )
        if not pairs or any(times < 1 for _, times in pairs):
            raise ConfigError(f"steps is {steps!r}: give at least one step, each one or more times")
        object.__setattr__(self, "pairs", pairs)

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        for delay, times in self.pairs:
            if retry < times:
                return delay
            retry -= times
        return self.pairs[-1][0]


@dataclass(frozen=True, slots=True)
class Exponential:
    """`base * factor ** retry`, at most `cap`, made uneven by `jitter`.

    With e = min(cap, base * factor**retry): none = e; full = uniform(0, e); equal = e/2 + uniform(0, e/2);
    add = e + uniform(0, e/2), at most cap; decorrelated = min(cap, uniform(base, 3 * previous delay)).
    `floor` is the least delay.
    """

    base: Duration = 2
    factor: float = 2
    cap: Duration = 300
    jitter: Jitter = "full"
    floor: Duration = 0

    def __post_init__(self) -> None:
        base, cap, floor = seconds(self.base), seconds(self.cap), seconds(self.floor)
        if base <= 0:
            raise ConfigError(f"base is {self.base!r}: it must be greater than 0")
        if self.factor < 1:
            raise ConfigError(f"factor is {self.factor!r}: it must be at least 1")
        if cap < base:
            raise ConfigError(f"cap is {self.cap!r} with a base of {self.base!r}: raise the cap or lower the base")
        if floor > cap:
            raise ConfigError(f"floor is {self.floor!r} with a cap of {self.cap!r}: lower the floor or raise the cap")
        if self.jitter not in get_args(Jitter):
            raise ConfigError(f"jitter is {self.jitter!r}: use one of {', '.join(get_args(Jitter))}")

    def ceiling(self, retry: int) -> float:
        """min(cap, base * factor ** retry), without overflow."""
        base, cap = seconds(self.base), seconds(self.cap)
        try:
            return float(min(cap, base * self.factor**retry))
        except OverflowError:
            return cap

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0); `previous` is the last delay, 0 if there was none."""
        ceiling, cap = self.ceiling(retry), seconds(self.cap)
        delay = ceiling
        match self.jitter:
            case "full":
                delay = rng.uniform(0, ceiling)
            case "equal":
                delay = ceiling / 2 + rng.uniform(0, ceiling / 2)
            case "add":
                delay = min(cap, ceiling + rng.uniform(0, ceiling / 2))
            case "decorrelated":
                base = seconds(self.base)
                delay = min(cap, rng.uniform(base, 3 * max(base, previous)))
        return max(seconds(self.floor), delay)


Backoff = Fixed | Listed | Stepped | Exponential


def parse_steps(text: str) -> tuple[tuple[float, int], ...]:
    """The steps of "1s x5, 5s x5, 30s" as (seconds, times).

    Raises:
        ConfigError: a step is no duration with an optional number of times.
    """
    pairs = []
    for part in text.split(","):
        match = _STEP.fullmatch(part.strip())
        if match is None:
            raise ConfigError(f"the step {part.strip()!r} of {text!r} cannot be read: write it like '5s x3' or '30s'")
        pairs.append((seconds(match["delay"]), int(match["times"] or 1)))
    return tuple(pairs)
