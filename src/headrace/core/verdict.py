"""What a handler may decide about its own job: returned or raised, always a value, never a side effect."""

from __future__ import annotations

from headrace.core.durations import Duration, micros


class Verdict(Exception):
    """Base of the verdicts. `return Snooze(30)` and `raise Snooze(30)` mean the same."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class RetryIn(Verdict):
    """Run again after `delay` (seconds, timedelta or text). Counts as an attempt, not as an error."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(micros(delay), why)
        self.delay_us = micros(delay)
        self.why = why


class Snooze(Verdict):
    """Put it off for `delay` (seconds, timedelta or text). Costs no attempt; bounded by the deadline only."""

    def __init__(self, delay: Duration, why: str = "") -> None:
        super().__init__(micros(delay), why)
        self.delay_us = micros(delay)
        self.why = why


class Fail(Verdict):
    """Fail at once, whatever the retry policy says."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Cancel(Verdict):
    """End without success and without failure: the work is not wanted any more."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why
