"""Endings of child processes: what went wrong there is told in words, and judged like what goes wrong here."""

import pytest

from headrace.core import endings
from headrace.core.backoff import Fixed, Listed
from headrace.core.errortext import describe
from headrace.core.retry import Retry
from headrace.core.settle import SECOND, retry_after_us, said
from headrace.core.states import State
from headrace.core.trail import Trail
from headrace.core.verdict import Cancel, Fail, Snooze
from tests.core.endings import NOW, end, policy

POLICY = Retry(
    max_attempts=9,
    backoff=Fixed(1),
    on=[
        (ZeroDivisionError, Fail("no sense")),
        (ArithmeticError, Cancel),
        (LookupError, Retry(max_attempts=2, backoff=Fixed(7), on={KeyError: Snooze(60, "not there yet")})),
        (OSError, Fixed(30)),
    ],
)


class Busy(OSError):
    retry_after = 45


ERRORS = [ZeroDivisionError("1/0"), OverflowError(), KeyError("k"), IndexError("i"), OSError("o"), Busy(), ValueError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("attempts", [0, 1, 8])
def test_an_error_elsewhere_is_judged_as_one_here(error: Exception, attempts: int) -> None:
    """B088: only its words, the place of its rule and what it asks for have come over."""
    before = Trail(attempts=attempts, errors=attempts)
    by = policy(POLICY)
    told = endings.RaisedElsewhere(describe(error), NOW - 5, retry_after_us(error), POLICY.match(error))
    here = endings.Raised(error, NOW - 5)
    assert end(told, before, by) == end(here, before, by)
    assert said(told, by) == said(here, by)


@pytest.mark.parametrize(("places", "expected"), [((), 1), ((4,), 1), ((-1,), 1), ((2,), 7), ((2, 5), 7), ((3, 0), 30)])
def test_a_place_that_there_is_not_is_that_of_no_rule(places: tuple[int, ...], expected: float) -> None:
    """The code of a child may be newer than that of its worker."""
    _, ruling = POLICY.at(places)
    assert ruling == Fixed(expected)


def test_a_crash_is_counted_and_named() -> None:
    """B007: it is no success, no attempt, and no crash of the worker."""
    outcome, after = end(endings.Crashed("killed by SIGSEGV", NOW - 5), by=policy(Retry(backoff=Listed([3, 4]))))
    assert (outcome.state, outcome.reason, outcome.delay_us) == (State.SCHEDULED, "crashed", 3 * SECOND)
    assert (after.crashes, after.attempts, after.errors, after.alone) == (1, 0, 0, True)
    (entry,) = after.history
    assert (entry.kind, entry.type, entry.message, entry.started_us) == (
        "crash",
        "ChildLost",
        "killed by SIGSEGV",
        NOW - 5,
    )


@pytest.mark.parametrize("max_crashes", [1, 2, 5])
def test_the_last_crash_convicts(max_crashes: int) -> None:
    by, before, states = policy(Retry(max_crashes=max_crashes, backoff=Fixed(0))), Trail(), list[State]()
    for _ in range(max_crashes):
        outcome, before = end(endings.Crashed("exit code 3"), before, by)
        states.append(outcome.state)
    assert states == [State.SCHEDULED] * (max_crashes - 1) + [State.FAILED]
    assert (outcome.reason, [entry.message for entry in before.history]) == ("crashed", ["exit code 3"] * max_crashes)


def test_no_try_follows_a_crash_after_the_deadline() -> None:
    outcome, _ = end(endings.Crashed("exit code 3"), by=policy(Retry(backoff=Fixed(60)), deadline_us=NOW + SECOND))
    assert (outcome.state, outcome.reason) == (State.FAILED, "deadline")


def test_a_crash_after_worker_deaths_counts_on() -> None:
    outcome, after = end(endings.Crashed("exit code 3"), Trail(crashes=2, alone=False), policy(Retry(max_crashes=3)))
    assert (outcome.state, after.crashes) == (State.FAILED, 3)
