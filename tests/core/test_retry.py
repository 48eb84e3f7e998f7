"""The retry policy and the verdicts: defaults, rules by exception class, refused settings."""

import copy
import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from headrace.core.backoff import Exponential, Fixed
from headrace.core.retry import Retry, Rules, Ruling
from headrace.core.verdict import Cancel, Fail, RetryIn, Snooze, Verdict
from headrace.errors import ConfigError


def test_defaults() -> None:
    retry = Retry()
    assert (retry.max_attempts, retry.max_errors, retry.max_crashes) == (5, None, 3)
    assert retry.backoff == Exponential(base=2, factor=2, cap=300, jitter="full")
    assert retry.on == ()


def test_none_means_one_attempt() -> None:
    assert Retry.none() == Retry(max_attempts=1)


RULES = {
    FileNotFoundError: Cancel,
    (PermissionError, KeyError): Fail("not allowed"),
    OSError: Fixed(1),
    ArithmeticError: Snooze("1m"),
    ValueError: Retry(max_attempts=2, backoff=Fixed(7), on={UnicodeError: Fail}),
}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (FileNotFoundError(), Cancel()),
        (PermissionError(), Fail("not allowed")),
        (KeyError(), Fail("not allowed")),
        (OSError(), Fixed(1)),
        (ConnectionResetError(), Fixed(1)),  # a subclass
        (TimeoutError(), Fixed(1)),
        (ZeroDivisionError(), Snooze(60)),
        (ValueError(), Fixed(7)),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "why"), Fail()),
        (RuntimeError(), Exponential()),
        (KeyboardInterrupt(), Exponential()),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("form", ["mapping", "pairs"])
def test_the_first_matching_rule_wins(error: BaseException, expected: Ruling, form: str) -> None:
    retry = Retry(on=RULES if form == "mapping" else list(RULES.items()))
    limits, ruling = retry.ruling(error)
    assert ruling == expected
    assert limits.max_attempts == (2 if isinstance(error, ValueError) else 5)


@pytest.mark.parametrize(
    ("on", "message"),
    [
        (
            [(Exception, Fixed(1)), (ValueError, Fail)],
            "a rule for ValueError after the one for Exception, its base class",
        ),
        ({OSError: Fixed(1), TimeoutError: Fail}, "which always wins: put TimeoutError first"),
        (
            [((KeyError, OSError), Fail), ((ValueError, ConnectionError), Cancel)],
            "ConnectionError after the one for OSError",
        ),
        ([(ValueError, Fail), ((KeyError, ValueError), Cancel)], "two rules for ValueError, and the first always wins"),
    ],
)
def test_a_rule_that_can_never_apply_is_refused(on: Rules, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Retry(on=on)


def test_classes_of_one_rule_may_be_each_others_base() -> None:
    retry = Retry(on=[((OSError, TimeoutError), Fail), (ValueError, Cancel)])
    assert (retry.ruling(TimeoutError())[1], retry.ruling(ValueError())[1]) == (Fail(), Cancel())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Retry(max_attempts=0), "max_attempts is 0: use a whole number of at least 1, or None for no limit"),
        (lambda: Retry(max_attempts=2.0), "max_attempts is 2.0: use a whole number"),  # type: ignore[arg-type]
        (lambda: Retry(max_attempts=True), "max_attempts is True: use a whole number"),
        (lambda: Retry(max_errors=-1), "max_errors is -1: use a whole number of at least 1, or None for no limit"),
        (lambda: Retry(max_crashes=0), "max_crashes is 0: use a whole number of at least 1"),
        (lambda: Retry(max_crashes=None), "max_crashes is None: use a whole number of at least 1"),  # type: ignore[arg-type]
        (lambda: Retry(max_errors=6), "max_errors is 6, which max_attempts=5 never lets happen: lower max_errors, or"),
        (lambda: Retry(backoff=3), "backoff is 3: use Fixed, Listed, Stepped or Exponential"),  # type: ignore[arg-type]
        (lambda: Retry(on=ValueError), "on is <class 'ValueError'>: map exception classes to rules"),  # type: ignore[arg-type]
        (lambda: Retry(on=[ValueError]), "on has <class 'ValueError'>: give pairs"),  # type: ignore[list-item]
        (lambda: Retry(on={"ValueError": Fail}), "on names 'ValueError': use an exception class"),  # type: ignore[dict-item]
        (lambda: Retry(on={int: Fail}), "on names <class 'int'>: use an exception class"),  # type: ignore[dict-item]
        (lambda: Retry(on={ValueError: Snooze}), "on maps <class 'ValueError'> to"),  # type: ignore[dict-item]
        (lambda: Retry(on={ValueError: 5}), "on maps <class 'ValueError'> to 5: use a backoff, a Retry, Fail, Cancel"),  # type: ignore[dict-item]
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_fix(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"\A{re.escape(message)}"):
        make()


def test_limits_that_fit_each_other_are_accepted() -> None:
    assert Retry(max_attempts=None, max_errors=100).max_errors == 100
    assert Retry(max_attempts=5, max_errors=5).max_errors == 5


VERDICTS: list[Callable[[], Verdict]] = [
    lambda: RetryIn(1.5, "busy"),
    lambda: Snooze("1m"),
    lambda: Fail("no such order"),
    lambda: Cancel(""),
]


@pytest.mark.parametrize("make", VERDICTS)
def test_a_verdict_is_a_value(make: Callable[[], Verdict]) -> None:
    one, other = make(), make()
    assert one == other
    assert hash(one) == hash(other)
    assert isinstance(one, Exception)
    clone = copy.deepcopy(one)
    assert clone == one
    assert vars(clone) == vars(one)


def test_verdicts_differ_by_kind_and_content() -> None:
    different = [RetryIn(60), Snooze(60), Snooze(61), Snooze(60, "why"), Fail(), Fail("a"), Cancel(), Cancel("a")]
    assert len(set(different)) == len(different)
    assert Snooze(60) == Snooze("1m") == Snooze(timedelta(minutes=1))
    assert Fail("a") != ValueError("a")


def test_a_delay_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"\Adelay is -1: "):
        Snooze(-1)
