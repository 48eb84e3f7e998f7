"""What a handler may decide about its own job: returned or raised, always a value, never a side effect."""

from __future__ import annotations

import inspect
from typing import Any, Self

from headrace.core.durations import Duration, is_text_but_no_duration, micros
from headrace.errors import ConfigError


class Verdict(Exception):
    """Base of the verdicts. `return Snooze(30)` and `raise Snooze(30)` mean the same; equal ones compare equal."""

    why: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Verdict) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))


def mistaken(value: object, task: str) -> TypeError | None:
    """What to raise where a handler has returned what it cannot have meant; None where nothing is wrong with `value`.

    A coroutine is closed: nobody has run it, so its effect is lost.
    """
    if isinstance(value, type) and issubclass(value, Verdict):
        name = value.__name__
        return TypeError(f"{task} returned the class {name}, which says nothing: return {name}(...), with parentheses")
    if inspect.iscoroutine(value):
        value.close()
        return TypeError(
            f"{task} returned a coroutine ({value.__qualname__}), which nobody has run: make it async def and await "
            "that, or call a plain function"
        )
    return None


class _Later(Verdict):
    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if not args and "delay" not in kwargs:  # `raise Snooze`: Python's own words would name our insides
            raise TypeError(f"{cls.__name__} needs a delay: raise or return {cls.__name__}('30s')")
        return super().__new__(cls, *args)

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
        ConfigError: `after` is no duration, or `why` is one or no text.
    """

    def __init__(self, why: str = "", after: Duration | None = None) -> None:
        if not is_text_but_no_duration(why):
            raise ConfigError(f"Pending({why!r}): the first argument says why; a delay is after={why!r}")
        self.after_us = None if after is None else micros(after, "after")
        self.why = why
        super().__init__(why, None if self.after_us is None else self.after_us / 1_000_000)
