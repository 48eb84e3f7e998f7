"""Which attempts follow a failed one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from headrace.core.backoff import Backoff, Exponential, Fixed, Listed, Stepped
from headrace.core.verdict import Cancel, Fail
from headrace.errors import ConfigError

BACKOFFS = (Fixed, Listed, Stepped, Exponential)
EXPONENTIAL = Exponential()
Errors = type[BaseException] | tuple[type[BaseException], ...]
Ruling = Backoff | Fail | Cancel | type[Fail] | type[Cancel]
Rules = Mapping[Errors, Ruling] | Iterable[tuple[Errors, Ruling]]


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy. Attempts, errors and crashes are counted apart; the first limit that is reached fails the job.

    Args:
        max_attempts: runs that end in an exception, a timeout or `RetryIn`; None: unlimited.
        max_errors: runs that end in an exception or a timeout; None: unlimited.
        max_crashes: worker deaths; the last one must happen while the job runs alone.
        backoff: the delay before each retry. An exception's `retry_after` (seconds) raises it.
        on: per exception class (or tuple of classes), first match wins: another backoff, or `Fail`, or `Cancel`.

    Raises:
        ConfigError: a limit is below 1, or a rule is none.
    """

    max_attempts: int | None = 5
    max_errors: int | None = None
    max_crashes: int = 3
    backoff: Backoff = EXPONENTIAL
    on: Rules = ()

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_errors", "max_crashes"):
            value = getattr(self, name)
            if value is None and name != "max_crashes":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}: it must be a whole number of at least 1")
        if not isinstance(self.backoff, BACKOFFS):
            raise ConfigError(f"backoff is {self.backoff!r}: use Fixed, Listed, Stepped or Exponential")
        rules = tuple(self.on.items()) if isinstance(self.on, Mapping) else tuple(self.on)
        for errors, ruling in rules:
            _check_rule(errors, ruling)
        object.__setattr__(self, "on", rules)

    @classmethod
    def none(cls) -> Retry:
        """One attempt, no retry."""
        return cls(max_attempts=1)

    def ruling(self, error: BaseException | None) -> Ruling:
        """What the first matching rule says about `error`, else the backoff."""
        for errors, ruling in cast("tuple[tuple[Errors, Ruling], ...]", self.on):
            if isinstance(error, errors):
                return ruling
        return self.backoff


def _check_rule(errors: object, ruling: object) -> None:
    for error in errors if isinstance(errors, tuple) else (errors,):
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise ConfigError(f"on names {error!r}: use exception classes")
    if not isinstance(ruling, (*BACKOFFS, Fail, Cancel)) and ruling not in {Fail, Cancel}:
        raise ConfigError(f"on maps {errors!r} to {ruling!r}: use a backoff, Fail or Cancel")
