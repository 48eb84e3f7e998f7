"""What becomes of a job: every ending with every combination of counts, and the cases that taught the rules."""

import weakref
from collections.abc import Callable
from itertools import product
from typing import get_args

import msgspec
import pytest

from headrace.core import endings, trail
from headrace.core.backoff import Exponential, Fixed
from headrace.core.errortext import ErrorText
from headrace.core.operations import CANCELLED_KEEP_US, Outcome
from headrace.core.retry import Retry
from headrace.core.settle import SECOND, Ending, is_poison, is_suspect
from headrace.core.states import State
from headrace.core.trail import EMPTY, HISTORY, TEXT, Mishap, Trail
from headrace.core.verdict import Cancel, Fail, RetryIn, Snooze, Verdict
from tests.core.endings import JOB, NOW, end, policy, raised, rerun

# -- every ending with every combination of counts

# ending -> state, reason, what is added to (attempts, errors, releases, snoozes, entries of the history)
ENDINGS: dict[str, tuple[Ending, State, str, tuple[int, int, int, int, int]]] = {
    "succeeded": (endings.Succeeded(), State.SUCCEEDED, "", (0, 0, 0, 0, 0)),
    "raised": (endings.Raised(ValueError("why")), State.SCHEDULED, "ValueError", (1, 1, 0, 0, 1)),
    "raised elsewhere": (
        endings.RaisedElsewhere(ErrorText("ValueError", "why", "")),
        State.SCHEDULED,
        "ValueError",
        (1, 1, 0, 0, 1),
    ),
    "crashed": (endings.Crashed("killed by SIGSEGV"), State.SCHEDULED, "crashed", (0, 0, 0, 0, 1)),
    "timed out": (endings.TimedOut(5), State.SCHEDULED, "timeout", (1, 1, 0, 0, 1)),
    "retry in": (endings.Decided(RetryIn(3)), State.SCHEDULED, "retry", (1, 0, 0, 0, 0)),
    "snooze": (endings.Decided(Snooze(3)), State.SCHEDULED, "snoozed", (0, 0, 0, 1, 0)),
    "fail": (endings.Decided(Fail("why")), State.FAILED, "failed", (1, 0, 0, 0, 1)),
    "cancel": (endings.Decided(Cancel("why")), State.CANCELLED, "cancelled", (1, 0, 0, 0, 1)),
    "released": (endings.Released(), State.READY, "released", (0, 0, 1, 0, 0)),
    "released late": (endings.Released(2 * SECOND), State.SCHEDULED, "released", (0, 0, 1, 0, 0)),
    "parked": (endings.Parked("circuit smtp"), State.PARKED, "circuit smtp", (0, 0, 0, 0, 0)),
    "over budget": (endings.OverBudget(60 * SECOND), State.SCHEDULED, "retry budget", (0, 0, 0, 0, 0)),
    "done before": (endings.DoneBefore(), State.SUCCEEDED, "done before", (0, 0, 0, 0, 0)),
    "failed before": (endings.FailedBefore("Declined", "no"), State.FAILED, "Declined", (0, 0, 0, 0, 1)),
    "once key held": (endings.OnceKeyHeld(), State.SCHEDULED, "once key held", (0, 0, 1, 0, 0)),
    "once key reused": (endings.OnceKeyReused("k"), State.FAILED, "once key reused", (0, 0, 0, 0, 1)),
    "unknown task": (endings.UnknownTask("shop.mail"), State.SCHEDULED, "unknown task", (0, 0, 0, 0, 0)),
    "newer message": (endings.Newer("of version 2"), State.SCHEDULED, "newer message", (0, 0, 0, 0, 0)),
    "unreadable": (endings.Unreadable("no JSON"), State.FAILED, "unreadable", (0, 0, 0, 0, 1)),
    "bad arguments": (endings.BadArguments("order_id is missing"), State.FAILED, "bad arguments", (0, 0, 0, 0, 1)),
    "expired": (endings.Expired(), State.EXPIRED, "expired", (0, 0, 0, 0, 0)),
    "deadline": (endings.DeadlinePassed(), State.FAILED, "deadline", (0, 0, 0, 0, 1)),
    "poisoned": (endings.Poisoned(), State.FAILED, "crashed", (0, 0, 0, 0, 1)),
    "cancelled": (endings.CancelledByUser(), State.CANCELLED, "cancelled", (0, 0, 0, 0, 0)),
}
LIMITS = [(None, None), (1, None), (3, None), (None, 2), (3, 2), (5, 5)]
COUNTS = [
    (attempts, errors, crashes, others)
    for attempts, crashes, others in product((0, 1, 2, 4), (0, 1, 3), (0, 2))
    for errors in range(attempts + 1)
]


@pytest.mark.parametrize("name", ENDINGS)
def test_each_ending_with_all_counts(name: str) -> None:
    ending, state, reason, added = ENDINGS[name]
    entry = Mishap("crash", 1, 1, "other")
    for (max_attempts, max_errors), counts in product(LIMITS, COUNTS):
        attempts, errors, crashes, others = counts
        before = Trail(attempts, errors, crashes, others, others, others, history=(entry,) * crashes)
        outcome, after = end(ending, before, policy(Retry(max_attempts, max_errors, backoff=Fixed(10))))

        now = (after.attempts, after.errors, after.releases, after.snoozes, len(after.history))
        changes = zip(now, (attempts, errors, others, others, crashes), strict=True)
        limit_reached = (max_attempts is not None and attempts + added[0] >= max_attempts) or (
            max_errors is not None and errors + added[1] >= max_errors
        )
        if name == "crashed" and crashes + 1 >= 3:
            assert (outcome.state, outcome.reason) == (State.FAILED, "crashed")
        elif limit_reached and name in ("raised", "raised elsewhere", "timed out", "retry in"):
            assert outcome.state is State.FAILED
            assert outcome.reason == ("attempts used up" if name == "retry in" else reason)
            assert tuple(new - old for new, old in changes) == (*added[:4], 1)
        else:
            assert (outcome.state, outcome.reason) == (state, reason)
            assert tuple(new - old for new, old in changes) == added
        # no ending of a living worker is a crash, except that of a child process
        assert (after.crashes, after.replays) == (crashes + (name == "crashed"), others)
        assert after.history[:crashes] == before.history
        assert (outcome.delay_us > 0) == (outcome.state is State.SCHEDULED)


def test_the_table_has_every_ending_and_verdict() -> None:
    assert {type(ending) for ending, *_ in ENDINGS.values()} == set(get_args(Ending))
    verdicts = {type(ending.verdict) for ending, *_ in ENDINGS.values() if isinstance(ending, endings.Decided)}
    assert verdicts == {RetryIn, Snooze, Fail, Cancel}


@pytest.mark.parametrize("name", ENDINGS)
def test_what_is_kept_and_for_how_long(name: str) -> None:
    ending, state, *_ = ENDINGS[name]
    outcome, _ = end(ending, by=policy(keep_us=7, cancelled_keep_us=8))
    assert outcome.keep_us == {State.SUCCEEDED: 7, State.FAILED: 0}.get(state, 8)
    assert policy().cancelled_keep_us == CANCELLED_KEEP_US


# -- success


def test_a_success_leaves_the_trail_alone() -> None:
    for ending in (endings.SUCCEEDED, endings.Succeeded()):
        outcome, _ = end(ending, Trail(attempts=2, errors=2))
        assert outcome == Outcome(JOB.id, JOB.queue, JOB.token, State.SUCCEEDED)


def test_deploys_cost_no_attempt() -> None:
    """B024: five graceful interruptions, then success, with max_attempts=3."""
    kept, by = EMPTY, policy(Retry(max_attempts=3))
    for count in range(1, 6):
        outcome, kept = end(endings.Released(), kept, by)
        assert outcome.state is State.READY
        assert (kept.releases, kept.attempts, kept.errors) == (count, 0, 0)
    assert end(endings.SUCCEEDED, kept, by)[0].state is State.SUCCEEDED


# -- errors and their retries


def test_the_backoff_is_followed_until_the_last_attempt() -> None:
    backoff = Exponential(base=0.5, factor=2, cap=8, jitter="none")
    waits, outcome, kept = rerun(raised, policy(Retry(max_attempts=8, backoff=backoff)))
    assert waits == [0.5, 1, 2, 4, 8, 8, 8]
    assert (outcome.state, outcome.reason, outcome.delay_us) == (State.FAILED, "ValueError", 0)
    assert (kept.attempts, kept.errors) == (8, 8)
    assert [one.attempt for one in kept.history] == list(range(1, 9))


@pytest.mark.parametrize(
    ("retry", "runs"),
    [
        (Retry.none(), 1),
        (Retry(max_attempts=3), 3),
        (Retry(max_attempts=None, max_errors=4), 4),
        (Retry(max_attempts=6, max_errors=4), 4),
        (Retry(), 5),
    ],
)
def test_the_limit_that_is_reached_first_fails_the_job(retry: Retry, runs: int) -> None:
    waits, outcome, kept = rerun(raised, policy(retry))
    assert len(waits) == runs - 1
    assert outcome.state is State.FAILED
    assert kept.errors == runs


def test_retries_that_were_asked_for_count_against_attempts_only() -> None:
    waits, outcome, kept = rerun(
        lambda: endings.Decided(RetryIn(4, "busy")), policy(Retry(max_attempts=4, max_errors=2))
    )
    assert waits == [4, 4, 4]
    assert outcome.reason == "attempts used up"
    assert (kept.attempts, kept.errors) == (4, 0)
    assert (kept.history[0].type, kept.history[0].message) == ("RetryIn", "busy")


def test_without_limits_it_goes_on() -> None:
    before = Trail(attempts=10**6, errors=10**6)
    outcome, after = end(raised(), before, policy(Retry(max_attempts=None)))
    assert outcome.state is State.SCHEDULED
    assert after.attempts == 10**6 + 1


def test_decorrelated_jitter_grows_from_the_delay_before() -> None:
    by = policy(Retry(max_attempts=None, backoff=Exponential(base=1, cap=10_000, jitter="decorrelated")))
    _, first = end(raised(), EMPTY, by)
    assert SECOND <= first.delay_us <= 3 * SECOND
    outcome, after = end(raised(), Trail(attempts=1, errors=1, delay_us=1000 * SECOND), by)
    assert 3 * SECOND < outcome.delay_us <= 3000 * SECOND
    assert after.delay_us == outcome.delay_us


def test_an_error_is_kept_as_text() -> None:
    """B088: type, message, traceback, worker and times, as plain data."""
    try:
        raise LookupError("no such order")
    except LookupError as error:
        _, kept = end(endings.Raised(error, NOW - 5), Trail(attempts=1, errors=1))
    (entry,) = kept.history
    assert "in test_an_error_is_kept_as_text" in entry.traceback
    assert msgspec.structs.replace(entry, traceback="") == Mishap(
        "error", NOW, 2, "w", type="LookupError", message="no such order", started_us=NOW - 5
    )


def test_a_timeout_is_kept() -> None:
    _, kept = end(endings.TimedOut(2.5, NOW - 9, "where it stood"))
    expected = Mishap("timeout", NOW, 1, "w", "TimeoutError", "still running after 2.5 s", "where it stood", NOW - 9)
    assert kept.history == (expected,)


@pytest.mark.parametrize("message", ["x" * 5_000_000, "\ud800\x00", "😀" * 10_000, "nan \x1b[31m"])
def test_any_message_fits_the_store(message: str) -> None:
    """B094, B101"""
    kept = EMPTY
    for _ in range(HISTORY + 3):
        outcome, kept = end(endings.Raised(ValueError(message)), kept, policy(Retry(max_attempts=None)))
        assert outcome.trail is not None
        assert len(outcome.trail) < 250_000
    assert len(kept.history) == HISTORY
    assert len(kept.history[-1].message) < TEXT + 40


def test_the_handlers_frames_are_let_go() -> None:
    """B114: an outcome holds nothing of the handler, nor does the exception or verdict that is still around."""

    class Large:
        pass

    def run(problem: Exception) -> "weakref.ref[Large]":
        large = Large()
        try:
            raise problem
        except Verdict as verdict:
            end(endings.Decided(verdict))
        except ValueError as error:
            end(endings.Raised(error))
        return weakref.ref(large)

    for problem in (ValueError("why"), SNOOZE, Fail("why")):
        large = run(problem)
        assert large() is None, problem


SNOOZE = Snooze(60)  # a constant, as handlers have it


# -- tasks that nobody knows


def test_an_unknown_task_waits_for_a_worker_that_knows_it() -> None:
    kept, now_us, waits = EMPTY, NOW, []
    while True:
        outcome, kept = end(endings.UnknownTask("shop.mail"), kept, now_us=now_us)
        if outcome.state is State.FAILED:
            break
        assert kept.unknown_since_us == NOW
        waits.append(outcome.delay_us / SECOND)
        now_us += outcome.delay_us
    for wait, middle in zip(waits, [1, 2, 4, 8, 16] + [30] * 100, strict=False):
        assert 0.75 * middle <= wait <= 1.25 * middle
    assert 600 <= (now_us - NOW) / SECOND <= 640
    assert (kept.attempts, kept.errors, kept.releases) == (0, 0, 0)
    assert kept.history[-1].type == "UnknownTask"
    assert "knew the task 'shop.mail'" in kept.history[-1].message


def test_the_patience_with_an_unknown_task_is_a_setting() -> None:
    by = policy(unknown_for_us=5)
    _, kept = end(endings.UnknownTask("t"), by=by)
    assert end(endings.UnknownTask("t"), kept, by, NOW + 4)[0].state is State.SCHEDULED
    assert end(endings.UnknownTask("t"), kept, by, NOW + 5)[0].state is State.FAILED


@pytest.mark.parametrize(
    "ending", [raised(), endings.TimedOut(1), endings.Decided(RetryIn(1)), endings.Decided(Snooze(1))]
)
def test_once_a_task_was_known_patience_starts_anew(ending: Ending) -> None:
    """A deploy that is rolled back, and rolled out again hours later, must not fail its jobs at once."""
    _, kept = end(endings.UnknownTask("t"))
    _, kept = end(ending, kept)
    assert (kept.unknown_since_us, kept.unknowns) == (None, 0)
    assert end(endings.UnknownTask("t"), kept, now_us=NOW + 36_000 * SECOND)[0].state is State.SCHEDULED


# -- crashes


def test_a_killed_worker_costs_a_crash_and_no_attempt() -> None:
    """B002: with one attempt only, the job still has it after its worker was killed."""
    kept = trail.decode(trail.crashed(None, worker="w", now_us=NOW, alone=True))
    assert not is_poison(kept, Retry.none())
    assert kept.history[0].type == "WorkerLost"
    outcome, kept = end(raised(), kept, policy(Retry.none()))
    assert (outcome.state, outcome.reason) == (State.FAILED, "ValueError")
    assert [one.kind for one in kept.history] == ["crash", "error"]


@pytest.mark.parametrize("max_crashes", [1, 2, 3, 5])
def test_only_a_crash_while_alone_convicts(max_crashes: int) -> None:
    """B009: whoever finds the crashes, their number is what counts."""
    retry = Retry(max_crashes=max_crashes)
    assert not is_suspect(EMPTY, retry)
    assert not is_poison(EMPTY, retry)
    raw = None
    for crashes in range(1, max_crashes + 3):
        raw = trail.crashed(raw, worker=f"w{crashes}", now_us=NOW, alone=False)
        kept = trail.decode(raw)
        assert is_suspect(kept, retry) == (crashes >= max(1, max_crashes - 1))
        assert not is_poison(kept, retry)  # others may have done it
        alone = trail.decode(trail.crashed(raw, worker="w", now_us=NOW, alone=True))
        assert is_poison(alone, retry) == (crashes + 1 >= max_crashes)


def test_a_poisoned_job_says_how_often() -> None:
    outcome, kept = end(endings.Poisoned(), Trail(crashes=3, alone=True))
    assert (outcome.state, outcome.reason) == (State.FAILED, "crashed")
    assert kept.history[-1].message == "it has killed its worker 3 times"


def test_a_replayed_job_is_no_suspect() -> None:
    raw = trail.crashed(trail.encode(Trail(crashes=2)), worker="w", now_us=NOW, alone=True)
    assert is_poison(trail.decode(raw), Retry())
    kept = trail.decode(trail.replayed(raw))
    assert not is_suspect(kept, Retry())
    assert not is_poison(kept, Retry())


# -- what cannot run


@pytest.mark.parametrize("make", [endings.Unreadable, endings.BadArguments])
@pytest.mark.parametrize("problem", ["the field 'order_id' is missing", "x" * 5_000_000, "\ud800"])
def test_what_cannot_run_fails_at_once_and_says_why(make: Callable[[str], Ending], problem: str) -> None:
    """B094, B101, B102: however broken the message is, its problem can be stored."""
    outcome, kept = end(make(problem), by=policy(Retry(max_attempts=None)))
    assert outcome.state is State.FAILED
    assert kept.history[0].message[:5] == problem.replace("\ud800", "?")[:5]
    assert len(kept.history[0].message) < TEXT + 40
    assert (kept.attempts, kept.errors) == (0, 0)
