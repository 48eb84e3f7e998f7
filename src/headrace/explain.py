"""Why is this job not running? An inquiry that answers in sentences."""

from __future__ import annotations

from headrace.circuits.looks import REASON, look
from headrace.core import operations as ops
from headrace.core import settle, trail
from headrace.core.hold import is_reason
from headrace.core.moments import aware
from headrace.core.states import State
from headrace.core.verdict import Pending
from headrace.inquiries import PAGE, Inquiry, Tasks, poll_of
from headrace.jobinfo import JobInfo, job_info

PENDING = Pending.__name__
AHEAD = 10_000  # jobs that are looked through for the one that is asked about

_SINGULAR = {
    "attempts": "attempt",
    "errors": "error",
    "crashes": "crash",
    "releases": "release",
    "snoozes": "snooze",
    "replays": "replay",
    "polls": "poll",
    "probes": "probe",
}


def why(id: str, now_us: int, tasks: Tasks) -> Inquiry[list[str]]:
    """Plain sentences about where a job stands and what it waits for."""
    view: ops.JobView | None = yield ops.Get(id)
    if view is None:
        return [
            f"The store knows no job {id}.",
            (
                "It has ended (successes are kept only with keep=, others for a while), was forgotten, "
                "or was never enqueued here."
            ),
        ]
    info = job_info(view, poll_of(view, tasks))
    match view.state:
        case State.READY:
            lines = yield from _ready(view, info, now_us)
        case State.RUNNING:
            lines = yield from _running(view, now_us)
        case State.PARKED:
            lines = yield from _parked(view, now_us)
        case _:
            lines = _resting(view, info, now_us)
    return [*lines, *_past(info)]


def _resting(view: ops.JobView, info: JobInfo, now_us: int) -> list[str]:
    match view.state:
        case State.SCHEDULED:
            cause = f" ({view.reason})" if view.reason else ""
            late = _too_late(view, info, max(now_us, view.due_us))
            lines = [f"It is scheduled until {_moment(view.due_us)}, in {_span(view.due_us - now_us)}{cause}."]
            return [*lines, *(late or _polling(info))]
        case State.FAILED:
            return [
                f"It has failed: {info.failure}",
                "It will not run again by itself; `headrace failed retry` makes it ready.",
            ]
    return [f"It has ended: {view.state.value}{f' ({view.reason})' if view.reason else ''}."]


def _parked(view: ops.JobView, now_us: int) -> Inquiry[list[str]]:
    """What it waits for, by its reason."""
    if is_reason(view.reason):
        return [
            f"It is parked, unharmed, since its task is held: too many of them killed their workers ({view.reason}).",
            "Workers of another version of the code run it, or `headrace hold release` does; see `headrace hold list`.",
        ]
    if not view.reason.startswith(REASON):
        return [f"It is parked until what it depends on is available again ({view.reason})."]
    circuit = yield from look(view.reason.removeprefix(REASON), None)
    lines = [f"It is parked, unharmed, until the circuit {circuit.name!r} lets it in: that is {circuit.state}."]
    if circuit.until is not None:
        left_us = round(circuit.until.timestamp() * 1_000_000) - now_us
        lines.append(f"Probes are let in {f'after {_span(left_us)} more' if left_us > 0 else 'now'}.")
    if circuit.history:
        last = circuit.history[-1]
        lines.append(f"Since {_moment(last.at_us)}: {last.why} (by {last.by}).")
    return lines


def _polling(info: JobInfo) -> list[str]:
    """How a poll goes on."""
    poll = info.poll
    if poll is None:
        return []
    most = "" if poll.most is None else f" of at most {poll.most}"
    after = "" if poll.delay is None else f", {poll.delay:,g} s after the last one"
    lines = [f"It is a poll ({poll.schedule}): query {poll.answers + 1}{most} is next{after}."]
    if info.deadline is not None:
        lines.append(f"Without a final answer it times out at {info.deadline.isoformat(timespec='seconds')}.")
    return lines


def _running(view: ops.JobView, now_us: int) -> Inquiry[list[str]]:
    since = "?" if view.claimed_us is None else _moment(view.claimed_us)
    lines = [f"It is running: held by worker {view.worker} since {since}."]
    if view.cancel:
        lines.append("It was asked to cancel.")
    workers: list[ops.WorkerView] = yield ops.Workers()
    mine = [worker for worker in workers if worker.worker == view.worker and worker.queue in (None, view.queue)]
    until_us = max((worker.lease_until_us for worker in mine), default=None)
    if until_us is not None and until_us > now_us:
        lines.append(
            f"The worker's lease holds until {_moment(until_us)}: if it has died, the job is rescued within a few "
            f"seconds after that, in {_span(until_us - now_us)}."
        )
        return lines
    lost = (
        "that worker is not registered any more" if until_us is None else f"its lease ran out {_ago(until_us, now_us)}"
    )
    rescuers = [worker for worker in _alive(workers, view.queue, now_us) if worker.worker != view.worker]
    fate = (
        "another worker rescues the job within a few seconds"
        if rescuers
        else f"no live worker is there to rescue the job: start one with `headrace work --queues {view.queue}`"
    )
    return [*lines, f"{lost[0].upper()}{lost[1:]}, so it has died or hangs; {fate}."]


def _ready(view: ops.JobView, info: JobInfo, now_us: int) -> Inquiry[list[str]]:
    ahead = yield from _ahead(view)
    lines = [f"It is ready in queue {view.queue!r}; {ahead}.", *_too_late(view, info, now_us)]
    workers: list[ops.WorkerView] = yield ops.Workers()
    listening = [worker for worker in workers if worker.queue in (None, view.queue)]
    alive = _alive(workers, view.queue, now_us)
    if not listening:
        lines.append(
            f"No live worker listens to queue {view.queue!r}: start one with `headrace work --queues {view.queue}`."
        )
    elif not alive:
        last_us = max(worker.lease_until_us for worker in listening)
        lines.append(f"No worker that could take it is alive: the last lease ran out {_ago(last_us, now_us)}.")
    else:
        held = sum(worker.held for worker in alive)
        where = (
            f"that {'listens' if len(alive) == 1 else 'listen'} to {view.queue!r}"
            if all(worker.queue for worker in alive)
            else "in all, whatever queues they listen to"
        )
        lines.append(f"{_count(len(alive), 'live worker')} {where}, holding {_count(held, 'job')}.")
    return lines


def _alive(workers: list[ops.WorkerView], queue: str, now_us: int) -> list[ops.WorkerView]:
    """Those that could take a job of `queue`, as far as the store tells."""
    return [worker for worker in workers if worker.queue in (None, queue) and worker.lease_until_us > now_us]


def _too_late(view: ops.JobView, info: JobInfo, start_us: int) -> list[str]:
    """What a worker that takes the job at `start_us` does instead of running it."""
    if info.envelope is None:
        return []
    expires_us, deadline_us = settle.limits(view.created_us, view.base_us, info.envelope)
    if info.poll is not None and info.deadline is not None and start_us >= info.deadline.timestamp() * 1_000_000:
        return [f"It is a poll and times out at {info.deadline.isoformat(timespec='seconds')}, without another query."]
    if deadline_us is not None and start_us >= deadline_us:
        return [f"It must not start after {_moment(deadline_us)}, its deadline: a worker that takes it fails it."]
    if expires_us is not None and start_us >= expires_us and not trail.decode(view.trail).has_started:
        return [f"It expires at {_moment(expires_us)}: a worker that takes it ends it as expired, without a run."]
    return []


def _ahead(view: ops.JobView) -> Inquiry[str]:
    before, cursor = 0, None
    while before < AHEAD:
        page: ops.Page = yield ops.List(State.READY, view.queue, limit=PAGE, cursor=cursor)
        for other in page.jobs:
            if other.id == view.id:
                higher = "of the same or a higher priority " if view.priority else ""
                return f"{_count(before, 'job')} {higher}before it" if before else "it is the next"
            before += 1
        cursor = page.next
        if cursor is None:
            return "it was taken while we looked"
    return f"more than {before:,} jobs before it"


def _past(info: JobInfo) -> list[str]:
    lines = []
    counts = {name: number for name, number in info.counts.items() if number}
    if counts:
        lines.append(f"So far: {', '.join(_count(number, _SINGULAR[name]) for name, number in counts.items())}.")
    if info.history and info.state is not State.FAILED:
        last = info.history[-1]
        pending = last.type == PENDING  # no trouble, but what a poll heard
        lines.append(f"The last answer: {last.message}." if pending else f"The last trouble: {info.failure}")
    if info.problem:
        lines.append(f"Its message: {info.problem}.")
    return lines


def _count(number: int, what: str) -> str:
    plural = "ies" if what.endswith("y") else "es" if what.endswith("sh") else "s"
    stem = what[:-1] if what.endswith("y") and number != 1 else what
    return f"{number:,} {stem if number == 1 else stem + plural}"


def _span(us: int) -> str:
    seconds = max(0, us) / 1_000_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _ago(us: int, now_us: int) -> str:
    return f"{_span(now_us - us)} ago"


def _moment(us: int) -> str:
    try:
        return aware(us).isoformat(timespec="seconds")
    except OverflowError:  # far beyond what datetime holds, written by another program
        return f"{us / 1_000_000:.0f} s after 1970"
