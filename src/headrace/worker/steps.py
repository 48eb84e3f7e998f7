"""One claimed job as a list of small steps, each of which may end it before its handler runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core import codec, endings, settle, trail
from headrace.core.poll import TIMED_OUT
from headrace.errors import InvalidArguments, NewerEnvelope, UnreadableEnvelope
from headrace.task import Task
from headrace.worker.table import Work

Tasks = Mapping[str, Task[..., Any]]
Step = Callable[[Work, Tasks, int], endings.Ending | None]


def read_trail(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """What the job remembers of earlier claims."""
    work.trail = trail.decode(work.job.trail) if work.job.trail is not None else trail.EMPTY
    return None


def read_envelope(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """Nothing read from a store is trusted: an unreadable body fails this job and no other."""
    if work.envelope is not None:  # its gates or its once key have been looked for already
        return None
    try:
        work.envelope = codec.decode(work.job.body)
    except NewerEnvelope as error:
        return endings.Newer(str(error))
    except UnreadableEnvelope as error:
        return endings.Unreadable(str(error))
    return None


def find_task(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """By name, among the registered tasks only."""
    assert work.envelope is not None
    work.task = tasks.get(work.envelope.task)
    return endings.UnknownTask(work.envelope.task) if work.task is None else None


def check_poison(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """A job that has killed its worker too often, the last time while it was alone in it."""
    assert work.task is not None
    assert work.trail is not None
    return endings.Poisoned() if work.trail.crashes and settle.is_poison(work.trail, work.task.retry) else None


def check_time(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """Too late to start."""
    assert work.envelope is not None
    assert work.task is not None
    expires, deadline = settle.limits(work.job.created_us, work.job.base_us, work.envelope, work.task.poll)
    late = deadline is not None and now_us >= deadline
    # `expires` means "not started by then"
    unstarted = expires is not None and now_us >= expires and (work.trail is None or not work.trail.has_started)
    if work.task.poll is not None and (late or unstarted):
        # its arguments go to a hook: what cannot be read cannot be handed on
        return read_arguments(work, tasks, now_us) or endings.Expired(TIMED_OUT)
    if late:
        return endings.DeadlinePassed()
    return endings.Expired() if unstarted else None


def read_arguments(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """Typed by the function's own annotations."""
    assert work.task is not None
    assert work.envelope is not None
    try:
        work.kwargs = work.task.arguments.decode(work.envelope.args)
    except InvalidArguments as error:
        return endings.BadArguments(str(error))
    return None


def check_once(work: Work, tasks: Tasks, now_us: int) -> endings.Ending | None:
    """What the store said to its once key."""
    assert work.envelope is not None
    if work.guard is not None:
        return work.guard.ending()
    return None if work.envelope.once_key is None else endings.Unreadable(HIDDEN_KEY)


HIDDEN_KEY = "its field 'once_key' is written with escapes: write the name as it is"

STEPS: tuple[Step, ...] = (
    read_trail,
    read_envelope,
    find_task,
    check_poison,
    check_time,
    read_arguments,
)


def prepare(
    work: Work, tasks: Tasks, now_us: int, held_back: Callable[[Work], endings.Ending | None]
) -> endings.Ending | None:
    """Take `work` through all steps; the ending of the first that ends it, else None: it may run.

    `held_back` is what the gates say to it, last but for its once key: what can never run shall not wait.
    """
    try:
        for step in STEPS:
            ending = step(work, tasks, now_us)
            if ending is not None:
                return ending
        return held_back(work) or check_once(work, tasks, now_us)
    except Exception as error:  # noqa: BLE001 - code of the user's, such as a validator, ends its own job only (B019)
        return endings.Raised(error)
