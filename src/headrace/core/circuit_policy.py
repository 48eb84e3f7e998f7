"""When a circuit opens and how it closes again: the settings of one, which stand in its register."""

from __future__ import annotations

import math

import msgspec

from headrace.errors import ConfigError

SECOND = 1_000_000
RECOVERY_US = 5 * SECOND  # calls are let in at a pace until nobody has found parked jobs for so long
BURST_S = 0.1  # so much of a second's refill may come at once
MOST = 10_000  # results of the largest window
YEAR_US = 366 * 24 * 3600 * SECOND


class CircuitPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a circuit opens, and how it closes again. Defaults are those of resilience4j, but for minimum and probes.

    Args:
        failure_rate: opens when this share of the calls of the window has failed; above 0, at most 1.
        window: how many calls it looks at, the last ones; 1 to 10,000.
        minimum: below so many calls it does not open. None: 20, or the window where that is smaller.
        slow_rate: opens when this share was slow.
        slow_after_us: a call that took longer was slow. None: none is.
        open_us: how long it stays open.
        probes: how many calls a half-open circuit lets through; what becomes of them decides. At least 1.
        refill: how many calls a second are let in after it has closed, while jobs are parked for it; above 0.

    Raises:
        ConfigError: one of these is out of range.
    """

    failure_rate: float = 0.5
    window: int = 100
    minimum: int | None = None
    slow_rate: float = 1.0
    slow_after_us: int | None = 60 * SECOND
    open_us: int = 60 * SECOND
    probes: int = 5
    refill: float = 50.0

    def __post_init__(self) -> None:
        for name in ("failure_rate", "slow_rate"):
            share = getattr(self, name)
            _check(name, share, 0 < share <= 1, "a share above 0 and at most 1, such as 0.5")
        _check("window", self.window, _whole(self.window, MOST), f"a whole number from 1 to {MOST}")
        minimum = self.minimum is None or _whole(self.minimum, self.window)
        _check("minimum", self.minimum, minimum, f"a whole number from 1 to {self.window}, the window, or None")
        slow_after = self.slow_after_us is None or _whole(self.slow_after_us, YEAR_US)
        _check("slow_after", self.slow_after_us, slow_after, "microseconds, a whole number, at most a year; or None")
        _check("open_for", self.open_us, _whole(self.open_us, YEAR_US), "microseconds, a whole number, at most a year")
        _check("probes", self.probes, _whole(self.probes, MOST), f"a whole number from 1 to {MOST}")
        _check("refill", self.refill, 1e-6 <= self.refill <= 1e6, "more than 0 and at most 1,000,000 calls a second")

    @property
    def least(self) -> int:
        """How many calls the window must hold before it says anything."""
        return min(20, self.window) if self.minimum is None else self.minimum

    @property
    def verdict_after(self) -> int:
        """How many probes must have come back for a verdict."""
        return min(self.least, self.probes)

    @property
    def burst(self) -> int:
        """How many calls may be let in at once while there is a pace: at least one."""
        return max(1, int(self.refill * BURST_S))

    @property
    def interval_us(self) -> int:
        """From one call to the next one while there is a pace."""
        return math.ceil(SECOND / self.refill)

    @property
    def burst_us(self) -> int:
        """How long the next burst takes to come. Parked jobs are offered as often."""
        return self.burst * self.interval_us

    @property
    def recovery_us(self) -> int:
        """How long there is a pace without another offer."""
        return max(RECOVERY_US, 2 * self.burst_us)


def _check(name: str, value: object, holds: object, fix: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value!r}: use {fix}")


def _whole(value: object, most: int) -> bool:
    """Whether it is a whole number from 1 to `most`."""
    return isinstance(value, int) and 1 <= value <= most
