"""How one claim ended, and what becomes of the job: an ending in, an outcome out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from headrace.core.backoff import Random
from headrace.core.endings import (
    BadArguments,
    CancelledByUser,
    Crashed,
    DeadlinePassed,
    Decided,
    DoneBefore,
    Ending,
    Expired,
    FailedBefore,
    Newer,
    OnceKeyHeld,
    OnceKeyReused,
    OverBudget,
    Parked,
    Poisoned,
    Raised,
    RaisedElsewhere,
    Released,
    Succeeded,
    TimedOut,
    UnknownTask,
    Unreadable,
)
from headrace.core.errortext import ErrorText, as_text, describe, drop_frames
from headrace.core.operations import CANCELLED_KEEP_US, ClaimedJob, Outcome
from headrace.core.poll import TIMED_OUT, Polling, answered
from headrace.core.retry import BACKOFFS, Retry, Ruling
from headrace.core.states import State
from headrace.core.trail import TEXT, TRACEBACK, Mishap, Trail, clean, encode
from headrace.core.verdict import Cancel, Pending, RetryIn, Snooze, Verdict

if TYPE_CHECKING:
    from headrace.core.codec import Envelope

SECOND = 1_000_000
UNKNOWN_CAP_S = 30.0  # longest pause before a job of an unknown task is offered again, give or take a quarter
ONCE_TURN_S = 0.25  # first pause, give or take a half, before a job looks again whether its once key is free
ONCE_DOUBLINGS = 4  # of that pause
OVER_BUDGET = "retry budget"
PARKED_PROBES = 3  # a job is parked again after so many vain probes; from then on others have their turn before it
FREE_PROBES = 500  # and after so many it may be the job itself that fails: they count as attempts
RETRY_AFTER_S = 1_000_000_000  # what an exception may ask for at most, about 30 years


class Probe(msgspec.Struct, frozen=True):
    """A run that tried for its circuit whether the dependency is back, and found that it is not.

    `reason`: what jobs of that circuit are parked for. `open_us`: how long until the next ones try.
    """

    reason: str
    open_us: int


class Policy(msgspec.Struct, frozen=True):
    """What bounds one job. `deadline_us` is a moment on the store's clock: no run starts after it.

    A poll ends at its deadline; other jobs fail. `probe`: the run was one, in vain.
    """

    retry: Retry
    keep_us: int = 0  # how long a succeeded job stays visible
    cancelled_keep_us: int = CANCELLED_KEEP_US  # and a cancelled or expired one
    unknown_for_us: int = 600 * SECOND  # how long to wait for a worker that knows the task
    deadline_us: int | None = None
    poll: Polling | None = None
    probe: Probe | None = None


class _Case(msgspec.Struct, frozen=True):
    """One claim under judgement."""

    job: ClaimedJob
    trail: Trail
    policy: Policy
    now_us: int
    worker: str
    rng: Random
    version: str

    def outcome(self, state: State, reason: str, trail: Trail, *, delay_us: int = 0) -> Outcome:
        """One that goes back may end cancelled instead, and is kept as if it had been cancelled here."""
        job = self.job
        keep_us = 0 if state is State.FAILED else self.policy.cancelled_keep_us
        return Outcome(job.id, job.queue, job.token, state, delay_us, encode(trail), keep_us, reason)

    def mishap(
        self, text: ErrorText, started_us: int | None = None, kind: Literal["error", "timeout", "crash"] = "error"
    ) -> Mishap:
        attempt = self.trail.attempts + 1
        return Mishap(kind, self.now_us, attempt, self.worker, *text, started_us=started_us, version=self.version)

    def decision(self, verdict: Verdict, started_us: int | None = None) -> Mishap:
        """A verdict as an entry of the history: its `why` is the message."""
        return self.mishap(ErrorText(type(verdict).__name__, clean(as_text(verdict.why), TEXT), ""), started_us)

    def with_known_task(self) -> _Case:
        """The case once the handler has run: should its task ever be unknown again, patience starts anew."""
        if self.trail.unknown_since_us is None:
            return self
        return replace(self, trail=replace(self.trail, unknown_since_us=None, unknowns=0))


def conclude(
    job: ClaimedJob,
    trail: Trail,
    ending: Ending,
    policy: Policy,
    *,
    now_us: int,
    worker: str,
    rng: Random,
    version: str = "",
) -> Outcome:
    """What becomes of `job`. `now_us` is the store's now; `trail` is what the job remembers of earlier claims.

    `version`: of the code that ran it.

    A success leaves the trail as it is. An error, a timeout or a verdict drops the frames of its exception.
    """
    if type(ending) is Succeeded:
        return Outcome(job.id, job.queue, job.token, State.SUCCEEDED, 0, None, policy.keep_us)
    case = _Case(job, trail, policy, now_us, worker, rng, version)
    match ending:
        case Raised() | RaisedElsewhere() | Crashed() | TimedOut():
            return _went_wrong(case.with_known_task(), ending)
        case Decided():
            return _decided(case.with_known_task(), ending.verdict, ending.started_us)
        case UnknownTask() | Newer():
            return _left_to_others(case, ending)
        case _:
            return _ended_before_running(case, ending)


def _ended_before_running(case: _Case, ending: Ending) -> Outcome:
    trail = case.trail
    match ending:
        case Released(delay_us=delay_us, why=why, started=started):
            state = State.SCHEDULED if delay_us else State.READY
            after = replace(trail, releases=trail.releases + 1, started=trail.started or started)
            return case.outcome(state, why, after, delay_us=delay_us)
        case Parked() | OverBudget() | OnceKeyHeld():
            return _held_back(case, ending)
        case Expired(reason=reason):
            return case.outcome(State.EXPIRED, reason, trail)
        case DoneBefore():
            return replace(case.outcome(State.SUCCEEDED, "done before", trail), keep_us=case.policy.keep_us)
        case CancelledByUser():
            return case.outcome(State.CANCELLED, "cancelled", trail)
    return _failed(case, *_why_failed(case, ending))


def _held_back(case: _Case, ending: Parked | OverBudget | OnceKeyHeld) -> Outcome:
    """It may run, but not now. What a circuit or a budget holds back has not even its trail written."""
    trail, job, keep_us = case.trail, case.job, case.policy.cancelled_keep_us
    match ending:
        case Parked(reason=reason):
            return Outcome(job.id, job.queue, job.token, State.PARKED, keep_us=keep_us, reason=reason)
        case OverBudget(window_us=window_us):
            # spread over half a window, so that what is put off together does not come back together
            pause_us = round(window_us * (0.25 + 0.5 * case.rng.random()))
            return Outcome(job.id, job.queue, job.token, State.SCHEDULED, pause_us, keep_us=keep_us, reason=OVER_BUDGET)
    pause = ONCE_TURN_S * 2 ** min(trail.releases, ONCE_DOUBLINGS) * (0.5 + case.rng.random())
    after = replace(trail, releases=trail.releases + 1)
    return case.outcome(State.SCHEDULED, "once key held", after, delay_us=round(pause * SECOND))


def _why_failed(case: _Case, ending: Ending) -> tuple[str, str, str]:
    """Reason, error type and message of a job that fails without having run."""
    match ending:
        case DeadlinePassed():
            return "deadline", "DeadlinePassed", "its deadline passed before it could start"
        case Poisoned():
            return "crashed", "WorkerLost", f"it has killed its worker {case.trail.crashes} times"
        case Unreadable(problem=problem):
            return "unreadable", "UnreadableEnvelope", problem
        case BadArguments(problem=problem, reason=reason):
            return reason, "InvalidArguments", problem
        case FailedBefore(error=error, message=message):
            return error, error, f"an earlier run under its once key has failed: {message}"
        case OnceKeyReused(key=key):
            return "once key reused", "OnceConflict", f"its once key {key!r} stands for a call with other arguments"
    raise TypeError(f"{ending!r} is no ending of a job that has not run")


def _failed(case: _Case, reason: str, name: str, message: str) -> Outcome:
    mishap = case.mishap(ErrorText(name, clean(message, TEXT), ""))
    return case.outcome(State.FAILED, reason, case.trail.with_mishap(mishap))


def _went_wrong(case: _Case, ending: Raised | RaisedElsewhere | Crashed | TimedOut) -> Outcome:
    retry, started_us = case.policy.retry, ending.started_us
    if isinstance(ending, Crashed):
        return _crashed(case, case.mishap(ErrorText("ChildLost", clean(ending.how, TEXT), ""), started_us, "crash"))
    if isinstance(ending, TimedOut):
        error = TimeoutError(f"still running after {ending.seconds:g} s")
        text = ErrorText("TimeoutError", str(error), clean(ending.traceback, TRACEBACK, keep_end=True))
        return _after_error(case, retry.ruling(error), case.mishap(text, started_us, "timeout"), "timeout", 0)
    if isinstance(ending, Raised):
        text, rule, least_us = describe(ending.error), retry.ruling(ending.error), retry_after_us(ending.error)
    else:
        text, rule, least_us = ending.text, retry.at(ending.rule), ending.retry_after_us
    return _after_error(case, rule, case.mishap(text, started_us), text.type, least_us)


def _crashed(case: _Case, mishap: Mishap) -> Outcome:
    """One crash, of which nobody else can have been the cause: a child process runs one job at a time (B007)."""
    trail, retry = case.trail, case.policy.retry
    after = replace(trail.with_mishap(mishap), crashes=trail.crashes + 1, alone=True)
    if is_poison(after, retry):
        return case.outcome(State.FAILED, "crashed", after)
    wait_s = retry.backoff.wait(trail.crashes, 0.0, case.rng)
    return _again(case, after, "crashed", round(wait_s * SECOND))


def retry_after_us(error: BaseException) -> int:
    """What an exception itself asks for: `retry_after`, in seconds or as a timedelta."""
    try:
        after = getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - a property of the user's that raises asks for nothing
        return 0
    if isinstance(after, timedelta):
        after = after.total_seconds()
    if isinstance(after, bool) or not isinstance(after, (int, float)):
        return 0
    # a timestamp or infinity is no duration, and would put the job off for ever
    return round(after * SECOND) if 0 < after < RETRY_AFTER_S else 0


def _after_error(case: _Case, rule: tuple[Retry, Ruling], mishap: Mishap, reason: str, least_us: int) -> Outcome:
    """After an error or a timeout, by the rule for it."""
    trail = case.trail
    retry, ruling = rule
    probe = case.policy.probe
    if probe is not None and isinstance(ruling, BACKOFFS) and trail.probes < FREE_PROBES:
        return _probed_in_vain(case, probe, mishap, reason, least_us)
    if isinstance(ruling, Snooze):
        return _again(case, replace(trail, snoozes=trail.snoozes + 1), reason, max(least_us, ruling.delay_us))
    after = replace(trail.with_mishap(mishap), attempts=trail.attempts + 1, errors=trail.errors + 1)
    if not isinstance(ruling, BACKOFFS):
        if ruling.why:
            after = after.with_mishap(case.decision(ruling))
        return _refused(case, ruling, after, reason)
    if _used_up(after, retry):
        return case.outcome(State.FAILED, reason, after)
    previous_us = trail.delay_us if trail.attempts else 0  # it may be that of a poll
    wait_s = ruling.wait(trail.attempts, previous_us / SECOND, case.rng)
    delay_us = max(least_us, round(wait_s * SECOND))
    return _again(case, replace(after, delay_us=delay_us), reason, delay_us)


def _probed_in_vain(case: _Case, probe: Probe, mishap: Mishap, reason: str, least_us: int) -> Outcome:
    """It would have waited with all others had it not been sent ahead, so that costs it no attempt.

    A job that fails for a reason of its own must not be the one that tries for ever.
    """
    trail, more = case.trail, case.trail.probes - PARKED_PROBES
    after = replace(trail.with_mishap(mishap), probes=trail.probes + 1, started=True)
    if more < 0:
        return case.outcome(State.PARKED, probe.reason, after)
    pause_us = probe.open_us * 2 ** min(more, 2) * (1 + case.rng.random())
    return _again(case, after, reason, max(least_us, round(pause_us)))


def said(ending: Ending, policy: Policy) -> str:
    """Why a run was put off, in its own words. The history keeps only what went wrong, so this is for the log."""
    match ending:
        case Decided(verdict=verdict):
            return clean(as_text(verdict.why), TEXT)
        case Raised(error=error):
            return _said_of(as_text(error), policy.retry.ruling(error))
        case RaisedElsewhere(text=text, rule=rule):
            return _said_of(text.message, policy.retry.at(rule))
    return ""


def _said_of(message: str, rule: tuple[Retry, Ruling]) -> str:
    _, ruling = rule
    return clean("; ".join(filter(None, (message, as_text(ruling.why)))), TEXT) if isinstance(ruling, Snooze) else ""


def _used_up(trail: Trail, retry: Retry) -> bool:
    attempts_left = retry.max_attempts is None or trail.attempts < retry.max_attempts
    errors_left = retry.max_errors is None or trail.errors < retry.max_errors
    return not (attempts_left and errors_left)


def _again(case: _Case, trail: Trail, reason: str, delay_us: int) -> Outcome:
    """Scheduled, unless the run would start after the deadline. A poll is, for its deadline itself, to end there."""
    deadline_us = case.policy.deadline_us
    if deadline_us is not None and case.now_us + delay_us >= deadline_us:
        if case.policy.poll is not None:
            left_us = deadline_us - case.now_us
            if left_us <= 0:
                return case.outcome(State.EXPIRED, TIMED_OUT, trail)
            return case.outcome(State.SCHEDULED, reason, trail, delay_us=left_us)
        message = f"the next run would start {delay_us / SECOND:g} s from now, after its deadline"
        mishap = case.mishap(ErrorText("DeadlinePassed", message, ""))
        return case.outcome(State.FAILED, "deadline", trail.with_mishap(mishap))
    return case.outcome(State.SCHEDULED, reason, trail, delay_us=delay_us)


def _decided(case: _Case, verdict: Verdict, started_us: int | None) -> Outcome:
    drop_frames(verdict)  # it may be a constant of the handler's module, raised again and again
    trail = case.trail
    match verdict:
        case Snooze(delay_us=delay_us):
            return _again(case, replace(trail, snoozes=trail.snoozes + 1), "snoozed", delay_us)
        case RetryIn(delay_us=delay_us):
            after = replace(trail, attempts=trail.attempts + 1, delay_us=delay_us)
            if _used_up(after, case.policy.retry):
                mishap = case.decision(verdict, started_us)
                return case.outcome(State.FAILED, "attempts used up", after.with_mishap(mishap))
            return _again(case, after, "retry", delay_us)
        case Pending():
            return _pending(case, verdict, started_us)
    after = replace(trail.with_mishap(case.decision(verdict, started_us)), attempts=trail.attempts + 1)
    return _refused(case, verdict, after, "cancelled" if isinstance(verdict, Cancel) else "failed")


def _pending(case: _Case, verdict: Pending, started_us: int | None) -> Outcome:
    """The upstream has no final answer yet. Where it said why, the history keeps that."""
    poll, trail = case.policy.poll, case.trail
    if poll is None:
        return _failed(case, "failed", "Pending", "only a task made with @app.poll may return Pending")
    delay_us = poll.wait_us(trail.polls + 1, 0 if trail.attempts else trail.delay_us, case.rng)
    if verdict.why:
        answer = replace(case.decision(verdict, started_us), kind="pending", attempt=trail.polls + 1)
        trail = trail.with_mishap(answer)
    if delay_us is None:
        return case.outcome(State.EXPIRED, TIMED_OUT, answered(trail, 0))
    delay_us = delay_us if verdict.after_us is None else verdict.after_us
    return _again(case, answered(trail, delay_us), "pending", delay_us)


def _refused(case: _Case, verdict: Verdict, after: Trail, reason: str) -> Outcome:
    if isinstance(verdict, Cancel):
        return case.outcome(State.CANCELLED, reason, after)
    return case.outcome(State.FAILED, reason, after)


def _left_to_others(case: _Case, ending: UnknownTask | Newer) -> Outcome:
    """Put back for a newer worker, for a while: a rolling deploy brings jobs that old workers do not understand."""
    if isinstance(ending, Newer):
        reason, name, problem = "newer message", "NewerEnvelope", ending.problem
    else:
        reason, name, problem = "unknown task", "UnknownTask", f"no worker knew the task {ending.task!r}"
    trail = case.trail
    since = case.now_us if trail.unknown_since_us is None else trail.unknown_since_us
    waited_us = case.now_us - since
    if waited_us >= case.policy.unknown_for_us:
        return _failed(case, reason, name, f"{problem}, in the {waited_us / SECOND:g} s it was offered to workers")
    pause = min(UNKNOWN_CAP_S, 2.0 ** min(trail.unknowns, 5))
    delay_us = round(pause * (0.75 + 0.5 * case.rng.random()) * SECOND)
    after = replace(trail, unknown_since_us=since, unknowns=trail.unknowns + 1)
    return case.outcome(State.SCHEDULED, reason, after, delay_us=delay_us)


def limits(
    created_us: int, base_us: int, envelope: Envelope, poll: Polling | None = None
) -> tuple[int | None, int | None]:
    """(expires, deadline) as moments on the store's clock; None where there is none.

    Relative ones count from the enqueue or the last replay; absolute ones are moved by as much as a replay came
    later, so that a replayed job has its time again (B137). A poll that was enqueued without one, as by a program in
    another language, has the deadline of its task.
    """
    deadline = _moment(created_us, base_us, envelope.deadline_in_us, envelope.deadline_at_us)
    if deadline is None and poll is not None:
        deadline = poll.deadline_us(base_us)
    return _moment(created_us, base_us, envelope.expires_in_us, envelope.expires_at_us), deadline


def _moment(created_us: int, base_us: int, in_us: int | None, at_us: int | None) -> int | None:
    if in_us is not None:
        return base_us + in_us
    return None if at_us is None else at_us + base_us - created_us


def is_suspect(trail: Trail, retry: Retry) -> bool:
    """Whether the next crash may convict it: it must run alone in its worker."""
    return trail.crashes > 0 and trail.crashes >= retry.max_crashes - 1


def is_poison(trail: Trail, retry: Retry) -> bool:
    """Whether it has crashed too often, the last time alone: nobody else can have been the cause."""
    return trail.alone and trail.crashes >= retry.max_crashes
