"""What rules, exceptions and deadlines make of a retry."""

from datetime import timedelta

import msgspec
import pytest

from headrace.core import endings
from headrace.core.backoff import Fixed, Stepped
from headrace.core.codec import Envelope
from headrace.core.operations import CANCELLED_KEEP_US
from headrace.core.retry import Retry
from headrace.core.settle import FREE_PROBES, PARKED_PROBES, SECOND, Ending, Probe, limits
from headrace.core.states import State
from headrace.core.trail import EMPTY, Mishap, Trail
from headrace.core.verdict import Cancel, Fail, RetryIn, Snooze, Verdict
from tests.core.endings import NOW, end, policy, raised, rerun


class RateLimited(Exception):
    def __init__(self, retry_after: object) -> None:
        super().__init__("slow down")
        self.retry_after = retry_after


# -- what an exception and the rules may say


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        (30, 30),
        (10.5, 10.5),
        (timedelta(minutes=1), 60),
        (3, 10),  # the backoff is longer
        (0, 10),
        (-30, 10),
        (float("nan"), 10),
        (float("inf"), 10),
        (1_700_000_000, 10),  # a timestamp
        (10**400, 10),
        (timedelta.max, 10),
        (True, 10),
        ("30", 10),
        (None, 10),
    ],
)
def test_retry_after_raises_the_delay(retry_after: object, expected: float) -> None:
    """B100: what is no finite number changes nothing."""
    outcome, _ = end(endings.Raised(RateLimited(retry_after)))
    assert outcome.delay_us == expected * SECOND


def test_a_retry_after_that_raises_is_passed_over() -> None:
    class Trapped(Exception):
        @property
        def retry_after(self) -> float:
            raise OSError("trap")

    assert end(endings.Raised(Trapped()))[0].delay_us == 10 * SECOND


RULES = Retry(
    max_attempts=3,
    backoff=Fixed(10),
    on={
        FileNotFoundError: Cancel("gone"),
        PermissionError: Fail,
        TimeoutError: Stepped("1s x2, 5s"),
        RateLimited: Snooze(2),
        OSError: Retry(max_attempts=2, backoff=Fixed(7)),
    },
)


def test_a_rule_cancels_with_its_reason() -> None:
    outcome, kept = end(endings.Raised(FileNotFoundError("order.pdf")), by=policy(RULES))
    assert (outcome.state, outcome.reason, outcome.keep_us) == (State.CANCELLED, "FileNotFoundError", CANCELLED_KEEP_US)
    assert [(one.type, one.message) for one in kept.history] == [("FileNotFoundError", "order.pdf"), ("Cancel", "gone")]


def test_a_rule_fails_at_the_first_error() -> None:
    outcome, kept = end(endings.Raised(PermissionError("no")), by=policy(RULES))
    assert (outcome.state, outcome.reason) == (State.FAILED, "PermissionError")
    assert [one.type for one in kept.history] == ["PermissionError"]
    assert (kept.attempts, kept.errors) == (1, 1)


def test_a_rule_of_its_own_for_timeouts() -> None:
    waits, outcome, _ = rerun(lambda: endings.TimedOut(5), policy(RULES))
    assert waits == [1, 1]
    assert outcome.reason == "timeout"


def test_a_rule_with_limits_of_its_own() -> None:
    waits, outcome, _ = rerun(lambda: endings.Raised(ConnectionResetError()), policy(RULES))
    assert waits == [7]
    assert (outcome.state, outcome.reason) == (State.FAILED, "ConnectionResetError")


@pytest.mark.parametrize("way", ["a rule", "a verdict"])
def test_a_rate_limit_costs_no_attempt(way: str) -> None:
    """B151: put off ten times with max_attempts=3, it succeeds at the eleventh."""
    ending = endings.Raised(RateLimited(4)) if way == "a rule" else endings.Decided(Snooze(4))
    kept = EMPTY
    for count in range(1, 11):
        outcome, kept = end(ending, kept, policy(RULES))
        assert (outcome.state, outcome.delay_us) == (State.SCHEDULED, 4 * SECOND)
        assert (kept.snoozes, kept.attempts, kept.errors, kept.history) == (count, 0, 0, ())
    assert end(endings.SUCCEEDED, kept, policy(RULES))[0].state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("verdict", "state", "reason"),
    [(Fail("no such order"), State.FAILED, "failed"), (Cancel("no such order"), State.CANCELLED, "cancelled")],
)
def test_a_verdict_keeps_its_why(verdict: Verdict, state: State, reason: str) -> None:
    outcome, kept = end(endings.Decided(verdict, NOW - 5), by=policy(Retry(max_attempts=None)))
    assert (outcome.state, outcome.reason) == (state, reason)
    entry = Mishap("error", NOW, 1, "w", type=type(verdict).__name__, message="no such order", started_us=NOW - 5)
    assert kept.history == (entry,)


def test_a_why_may_be_anything() -> None:
    """B088: a verdict made from an exception whose text raises."""

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    _, kept = end(endings.Decided(Fail(Unspeakable())))  # type: ignore[arg-type]
    assert kept.history[0].message == "<Unspeakable.__str__ raised RuntimeError>"


# -- deadline and expiry


@pytest.mark.parametrize(
    "ending", [raised(), endings.TimedOut(5), endings.Decided(RetryIn(10)), endings.Decided(Snooze(10))]
)
def test_no_run_is_planned_after_the_deadline(ending: Ending) -> None:
    outcome, kept = end(ending, by=policy(deadline_us=NOW + 10 * SECOND + 1))
    assert outcome.state is State.SCHEDULED
    outcome, kept = end(ending, by=policy(deadline_us=NOW + 10 * SECOND))
    assert (outcome.state, outcome.reason, outcome.delay_us) == (State.FAILED, "deadline", 0)
    assert kept.history[-1].type == "DeadlinePassed"
    assert kept.history[-1].message == "the next run would start 10 s from now, after its deadline"


def test_a_success_after_the_deadline_is_one() -> None:
    assert end(endings.SUCCEEDED, by=policy(deadline_us=NOW - 1))[0].state is State.SUCCEEDED


HOUR = 3600 * SECOND
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("options", "first", "replayed"),
    [
        ({}, (None, None), (None, None)),
        ({"expires_in_us": MINUTE}, (MINUTE, None), (HOUR + MINUTE, None)),
        ({"deadline_in_us": MINUTE}, (None, MINUTE), (None, HOUR + MINUTE)),
        ({"expires_at_us": NOW + 5}, (5, None), (HOUR + 5, None)),
        ({"deadline_at_us": NOW + 5, "expires_in_us": 3}, (3, 5), (HOUR + 3, HOUR + 5)),
        ({"deadline_at_us": NOW - 5}, (None, -5), (None, HOUR - 5)),
    ],
)
def test_a_replay_renews_deadline_and_expiry(
    options: dict[str, int], first: tuple[int | None, int | None], replayed: tuple[int | None, int | None]
) -> None:
    """B137: one hour after the enqueue a replayed job has all its time again."""
    envelope = Envelope(id="job", task="t", args=msgspec.Raw(b"{}"), **options)  # type: ignore[arg-type]
    for base_us, expected in ((NOW, first), (NOW + HOUR, replayed)):
        found = limits(NOW, base_us, envelope)
        assert tuple(None if moment is None else moment - NOW for moment in found) == expected


PROBE = Probe("circuit smtp", 60 * SECOND)


def test_a_probe_in_vain_costs_no_attempt() -> None:
    """It waits as all others do; after a few of them others have their turn before it; at last it is a failure."""
    kept, delays = EMPTY, list[float]()
    by = policy(Retry(max_attempts=2, backoff=Fixed(10)), probe=PROBE)
    for number in range(PARKED_PROBES):
        outcome, kept = end(raised(), kept, by)
        assert (outcome.state, outcome.reason, outcome.delay_us) == (State.PARKED, "circuit smtp", 0)
        assert (kept.probes, kept.attempts, kept.errors, len(kept.history)) == (number + 1, 0, 0, number + 1)
    for _ in range(4):
        outcome, kept = end(raised(), kept, by)
        assert (outcome.state, outcome.reason) == (State.SCHEDULED, "ValueError")
        delays.append(outcome.delay_us / SECOND)
    assert (kept.attempts, kept.has_started) == (0, True)
    for delay, least in zip(delays, (60, 120, 240, 240), strict=True):
        assert least <= delay < 2 * least
    outcome, kept = end(raised(), Trail(probes=FREE_PROBES), by)
    assert (outcome.state, kept.attempts, kept.probes) == (State.SCHEDULED, 1, FREE_PROBES)


def test_what_a_rule_says_about_its_error_holds_for_a_probe_as_well() -> None:
    outcome, kept = end(raised(), by=policy(Retry(on={ValueError: Fail("broken")}), probe=PROBE))
    assert (outcome.state, kept.probes) == (State.FAILED, 0)
    outcome, kept = end(raised(), by=policy(Retry(on={ValueError: Snooze(5)}), probe=PROBE))
    assert (outcome.state, kept.probes, kept.snoozes) == (State.SCHEDULED, 0, 1)


def test_a_probe_that_times_out_is_one_in_vain() -> None:
    outcome, kept = end(endings.TimedOut(3), by=policy(Retry.none(), probe=PROBE))
    assert (outcome.state, kept.probes, kept.history[-1].kind) == (State.PARKED, 1, "timeout")
