"""What a handler may decide about its own job: returned or raised, always a value, never a side effect."""

from __future__ import annotations

from headrace.core.durations import Duration, micros
from headrace.errors import ConfigError


class Verdict(Exception):
    """Base of the verdicts. `return Snooze(30)` and `raise Snooze(30)` mean the same; equal ones compare equal."""

    why: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


class _Later(Verdict):
    def __init__(self, delay: Duration, why: str = "") -> None:
        self.delay_us = micros(delay, "delay")
        self.why = why
        super().__init__(self.delay_us / 1_000_000, why)  # what a copy is made from


class RetryIn(_Later):
    """Run again after `delay` (seconds, timedelta or text). Counts as an attempt, not as an error.

    Raises:
        ConfigError: `delay` is no duration.
    """


class Snooze(_Later):
    """Put it off for `delay` (seconds, timedelta or text). Costs no attempt; bounded by the deadline only.

    Raises:
        ConfigError: `delay` is no duration.
    """


class Fail(Verdict):
    """Fail at once, whatever the retry policy says. `why` stands in the job's history."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Cancel(Verdict):
    """End without success and without failure: the work is not wanted any more. `why` stands in the job's history."""

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class Pending(Verdict):
    """The upstream's answer is not final yet: ask again when the schedule of the poll says so.

    `after` (seconds, timedelta or text) is this time's delay instead, as where the upstream asks for one. `why` stands
    in the log and in the job's history. Only for tasks that are made with `@app.poll`.

    Raises:
        ConfigError: `after` is no duration, or `why` no text.
    """

    def __init__(self, why: str = "", after: Duration | None = None) -> None:
        if not isinstance(why, str):
            raise ConfigError(f"Pending({why!r}): the first argument says why; a delay is after={why!r}")
        self.after_us = None if after is None else micros(after, "after")
        self.why = why
        super().__init__(why, None if self.after_us is None else self.after_us / 1_000_000)
