"""Which attempts follow a failed one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, Union, cast

import msgspec
from msgspec.structs import force_setattr

from headrace.core.backoff import Backoff, Exponential, Fixed, Listed, Stepped
from headrace.core.verdict import Cancel, Fail, Snooze
from headrace.errors import ConfigError

BACKOFFS = (Fixed, Listed, Stepped, Exponential)
EXPONENTIAL = Exponential()
Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
Ruling: TypeAlias = Backoff | Fail | Cancel | Snooze
Rule: TypeAlias = Union[Ruling, type[Fail], type[Cancel], "Retry"]
# a mapping's key type is invariant: Mapping[Errors, ...] would refuse {ValueError: Fail}
Rules: TypeAlias = Mapping[Any, Rule] | Sequence[tuple[Any, Rule]]


class Retry(msgspec.Struct, frozen=True):
    """A retry policy. Attempts, errors and crashes are counted apart; the first limit that is reached fails the job.

    Args:
        max_attempts: runs that end in an exception, a timeout or `RetryIn`; None: unlimited.
        max_errors: runs that end in an exception or a timeout; None: unlimited.
        max_crashes: worker deaths; the last one must happen while the job runs alone.
        backoff: the delay before each retry. An exception's `retry_after` (seconds or a timedelta) raises it.
        on: per exception class (or tuple of classes), first match wins. A timeout counts as a `TimeoutError`.
            A rule is a backoff; a `Retry`, whose limits then hold for the counts of the whole job; `Fail` or
            `Cancel`, as a class or with its reason; or `Snooze(delay)`, which costs no attempt: for a server that
            says "not now", with `retry_after` or without.

    Raises:
        ConfigError: a limit is below 1 or can never be reached, a rule is none, or one stands behind a rule for a
            base class, so that it could never apply.
    """

    max_attempts: int | None = 5
    max_errors: int | None = None
    max_crashes: int = 3
    backoff: Backoff = EXPONENTIAL
    on: Rules = ()

    def __post_init__(self) -> None:
        for name in ("max_attempts", "max_errors", "max_crashes"):
            _check_limit(name, getattr(self, name))
        if self.max_attempts is not None and self.max_errors is not None and self.max_errors > self.max_attempts:
            # every error is an attempt as well
            raise ConfigError(
                f"max_errors is {self.max_errors}, which max_attempts={self.max_attempts} never lets happen: "
                "lower max_errors, or set max_attempts=None"
            )
        if not isinstance(self.backoff, BACKOFFS):
            raise ConfigError(f"backoff is {self.backoff!r}: use Fixed, Listed, Stepped or Exponential")
        force_setattr(self, "on", _checked_rules(self.on))

    @classmethod
    def none(cls) -> Retry:
        """One attempt, no retry."""
        return cls(max_attempts=1)

    def ruling(self, error: BaseException) -> tuple[Retry, Ruling]:
        """What the first matching rule says about `error`, else the backoff; and the policy whose limits hold."""
        return self.at(self.match(error))

    def match(self, error: BaseException) -> tuple[int, ...]:
        """Which rule is for `error`: its place in `on`, and where that is a `Retry`, the place in there. None: ()."""
        for place, (errors, rule) in enumerate(self._rules):
            if isinstance(error, errors):
                return (place, *rule.match(error)) if isinstance(rule, Retry) else (place,)
        return ()

    def at(self, places: Sequence[int]) -> tuple[Retry, Ruling]:
        """What the rule in that place says, as `ruling`. A place that there is not is that of no rule."""
        if not places or not 0 <= places[0] < len(self.on):
            return self, self.backoff
        rule = self._rules[places[0]][1]
        return rule.at(places[1:]) if isinstance(rule, Retry) else (self, rule)

    @property
    def _rules(self) -> tuple[tuple[Errors, Ruling | Retry], ...]:
        return cast("tuple[tuple[Errors, Ruling | Retry], ...]", self.on)


def _check_limit(name: str, value: object) -> None:
    if value is None and name != "max_crashes":
        return
    if type(value) is not int or value < 1:
        fix = "a whole number of at least 1" + ("" if name == "max_crashes" else ", or None for no limit")
        raise ConfigError(f"{name} is {value!r}: use {fix}")


def _checked_rules(on: object) -> tuple[tuple[Errors, Ruling | Retry], ...]:
    pairs = on.items() if isinstance(on, Mapping) else on
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise ConfigError(f"on is {on!r}: map exception classes to rules, such as {{ValueError: Fail}}")
    rules = tuple(map(_checked_rule, pairs))
    _refuse_unreachable([errors if isinstance(errors, tuple) else (errors,) for errors, _ in rules])
    return rules


def _refuse_unreachable(rules: list[tuple[type[BaseException], ...]]) -> None:
    """The first match wins, so a rule behind one for the same class or a base of it would never be asked."""
    before: list[type[BaseException]] = []
    for errors in rules:
        for error in errors:
            base = next((known for known in before if issubclass(error, known)), None)
            if base is error:
                raise ConfigError(f"on has two rules for {error.__name__}, and the first always wins: remove one")
            if base is not None:
                raise ConfigError(
                    f"on has a rule for {error.__name__} after the one for {base.__name__}, its base class, which "
                    f"always wins: put {error.__name__} first"
                )
        before += errors


def _checked_rule(pair: object) -> tuple[Errors, Ruling | Retry]:
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise ConfigError(f"on has {pair!r}: give pairs of an exception class and a rule, such as (ValueError, Fail)")
    errors, rule = pair
    for error in errors if isinstance(errors, tuple) else (errors,):
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise ConfigError(f"on names {error!r}: use an exception class, or a tuple of them")
    if rule is Fail or rule is Cancel:
        rule = rule()
    if not isinstance(rule, (*BACKOFFS, Retry, Fail, Cancel, Snooze)):
        raise ConfigError(f"on maps {errors!r} to {rule!r}: use a backoff, a Retry, Fail, Cancel or Snooze(delay)")
    return errors, rule
