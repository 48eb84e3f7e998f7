"""How long to wait before the next attempt.

All delays are in seconds. `retry` counts from 0: the first retry waits for the first delay. Sources: the AWS
Architecture Blog, "Exponential Backoff and Jitter", 2015, and its simulator, whose n starts at 1 where ours
starts at 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Literal, Protocol, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from headrace.core.durations import Duration, seconds
from headrace.errors import ConfigError

Jitter = Literal["none", "full", "equal", "decorrelated", "add"]

_STEP = re.compile(r"(?P<delay>.+?)\s*(?:[x*]\s*(?P<times>\d+))?", re.ASCII)


class Random(Protocol):
    """What is asked of a `random.Random`, which is handed in."""

    def random(self) -> float:
        """From 0 to 1."""
        ...

    def uniform(self, a: float, b: float) -> float:
        """From `a` to `b`."""
        ...


class Fixed(msgspec.Struct, frozen=True):
    """The same delay each time.

    Raises:
        ConfigError: `delay` is no duration.
    """

    delay: Duration

    def __post_init__(self) -> None:
        seconds(self.delay, "delay")

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        return seconds(self.delay)


class Listed(msgspec.Struct, frozen=True):
    """One delay after the other; the last repeats.

    Raises:
        ConfigError: `delays` is empty, or one of them is no duration.
    """

    delays: Iterable[Duration]

    def __post_init__(self) -> None:
        delays = tuple(seconds(delay, "a delay of delays") for delay in _items(self.delays, "delays"))
        if not delays:
            raise ConfigError("delays is empty: give at least one delay")
        force_setattr(self, "delays", delays)

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        delays = tuple(self.delays)
        return seconds(delays[min(retry, len(delays) - 1)])


class Stepped(msgspec.Struct, frozen=True):
    """Steps with repetitions, as a text or as pairs: "1s x5, 5s x5, 10s x10, 30s". The last step repeats for ever.

    Raises:
        ConfigError: `steps` is empty, or one of them cannot be read.
    """

    steps: str | Iterable[tuple[Duration, int]]

    def __post_init__(self) -> None:
        steps = self.steps
        pairs = parse_steps(steps) if isinstance(steps, str) else tuple(map(_pair, _items(steps, "steps")))
        if not pairs:
            raise ConfigError("steps is empty: give at least one step, such as '30s'")
        force_setattr(self, "steps", pairs)

    def wait(self, retry: int, previous: float, rng: Random) -> float:
        """Seconds before retry number `retry` (from 0)."""
        pairs = cast("tuple[tuple[float, int], ...]", self.steps)
        for delay, times in pairs:
            if retry < times:
                return delay
            retry -= times
        return pairs[-1][0]


class Exponential(msgspec.Struct, frozen=True):
    """`base * factor ** retry`, at most `cap`, made uneven by `jitter`.

    With e = min(cap, base * factor**retry): none = e; full = uniform(0, e); equal = e/2 + uniform(0, e/2);
    add = e + uniform(0, e/2), at most cap; decorrelated = min(cap, uniform(base, 3 * previous delay)).
    `floor` is the least delay.

    Raises:
        ConfigError: base <= 0, factor < 1, cap < base, floor > cap, or an unknown jitter.
    """

    base: Duration = 2
    factor: float = 2
    cap: Duration = 300
    jitter: Jitter = "full"
    floor: Duration = 0

    def __post_init__(self) -> None:
        base, cap, floor = seconds(self.base, "base"), seconds(self.cap, "cap"), seconds(self.floor, "floor")
        if base == 0:
            raise ConfigError(f"base is {self.base!r}: it must be greater than 0, or use Fixed(0) to retry at once")
        if not _is_factor(self.factor):
            raise ConfigError(f"factor is {self.factor!r}: it must be a number of at least 1")
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
            return min(cap, base * float(self.factor) ** retry)  # a float: 2 ** 1_000_000 is a number of 300 KB
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
            raise ConfigError(f"steps is {text!r} with an empty step: write them like '1s x5, 5s x3, 30s'")
        pairs.append(_pair((match["delay"], int(match["times"] or 1))))
    return tuple(pairs)


def _pair(step: object) -> tuple[float, int]:
    if not (isinstance(step, (tuple, list)) and len(step) == 2):
        raise ConfigError(f"steps has {step!r}: give pairs of a delay and a number of times, such as ('5s', 3)")
    delay, times = step
    if type(times) is not int or times < 1:
        raise ConfigError(f"steps has {times!r} times a delay of {delay!r}: use a whole number of at least 1")
    return seconds(delay, "a delay of steps"), times


def _items(value: object, field: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"{field} is {value!r}: give a list")
    return tuple(value)


def _is_factor(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 1 <= value < math.inf
