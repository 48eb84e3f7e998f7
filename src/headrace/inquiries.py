"""Questions to the store that take several operations, as generators: `Jobs` and `AsyncJobs` run the same ones.

A generator yields operations, receives their answers, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.core import codec, keys
from headrace.core import operations as ops
from headrace.core.once import task_scope
from headrace.core.once_records import LookOnce, OnceView
from headrace.core.poll import Polling
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.core.wording import near
from headrace.errors import ConfigError, InvalidArguments, UnreadableEnvelope
from headrace.jobinfo import JobInfo, OnceInfo, job_info, once_info
from headrace.task import Task

R = TypeVar("R")
Inquiry = Generator[ops.Operation[Any], Any, R]
Tasks = Mapping[str, Task[..., Any]]
Progress = Callable[[int, int], None]
"""Called with how many are done and how many there are in all (0: not known)."""

PAGE = 1_000


class Retried(msgspec.Struct, frozen=True):
    """`retried`: how many are ready again; `skipped`: id -> why not."""

    retried: int
    skipped: dict[str, str]


class Problem(msgspec.Struct, frozen=True):
    """A waiting job that this code cannot run."""

    id: str
    task: str
    queue: str
    problem: str


def drive(inquiry: Inquiry[R], driver: Driver) -> R:
    """Run `inquiry` in this thread."""
    try:
        operation = next(inquiry)
        while True:
            try:
                answer = driver.run(operation)
            except ValueError as error:  # the inquiry may know what the caller got wrong
                operation = inquiry.throw(error)
            else:
                operation = inquiry.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


async def adrive(inquiry: Inquiry[R], driver: Driver) -> R:
    """The same, awaited."""
    try:
        operation = next(inquiry)
        while True:
            try:
                answer = await driver.arun(operation)
            except ValueError as error:  # the inquiry may know what the caller got wrong
                operation = inquiry.throw(error)
            else:
                operation = inquiry.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


def poll_of(view: ops.JobView, tasks: Tasks) -> Polling | None:
    """How the task of a job polls, if it does."""
    task = tasks.get(view.task)
    return None if task is None else task.poll


# -- one job


def get(id: str, tasks: Tasks) -> Inquiry[JobInfo | None]:
    """A job, with the record of its once key if it has one."""
    view: ops.JobView | None = yield ops.Get(id)
    if view is None:
        return None
    info = job_info(view, poll_of(view, tasks))
    task = tasks.get(view.task)
    key = _once_key(info.envelope, task)
    if key is None:
        return info
    found = yield from _record(view.task if task is None else task.name, key, view.queue)
    return msgspec.structs.replace(info, once=found)


def once(task: str, key: str, queue: str | None, tasks: Tasks) -> Inquiry[OnceInfo]:
    """The record of a task's once key.

    Raises:
        ConfigError: the app has no such task, and no queue is named.
        InvalidArguments: the key can be none.
    """
    known = tasks.get(task)
    if known is None and queue is None:
        close = near(task, sorted(tasks))
        fix = f"did you mean {' or '.join(close)}?" if close else "name the queue= of its jobs too"
        raise ConfigError(f"the app has no task {task!r}: {fix}")
    if known is not None:
        task, queue = known.name, known.queue if queue is None else queue
    return (yield from _record(task, keys.checked(key, "once"), queue or ""))


def _record(task: str, key: str, queue: str) -> Inquiry[OnceInfo]:
    view: OnceView | None = yield LookOnce(task_scope(task), key, queue)
    return once_info(task, key, view)


def _once_key(envelope: codec.Envelope | None, task: Task[..., Any] | None) -> str | None:
    """As a worker finds it. None where there is none, or none can be made: the worker will say why."""
    if envelope is None or (envelope.once_key is None and (task is None or task.once is None)):
        return None
    try:
        if envelope.once_key is not None:
            return keys.checked(envelope.once_key, "once")
        assert task is not None
        assert task.once is not None
        return task.once.render({**task.arguments.defaults, **task.arguments.decode(envelope.args)})
    except (Exception, SystemExit):  # noqa: BLE001 - a validator of the user's may raise anything
        return None


# -- failed jobs


def retry(ids: str | Iterable[str]) -> Inquiry[Retried]:
    """Make failed jobs ready again."""
    retried = 0
    skipped: dict[str, str] = {}
    for chunk in _chunks([ids] if isinstance(ids, str) else list(ids)):
        answer: ops.Replayed = yield ops.Replay(chunk)
        retried += len(answer.replayed)
        skipped |= answer.skipped
    return Retried(retried, skipped)


def retry_failed(
    queue: str | None, task: str | None, reason: str | None, progress: Progress | None
) -> Inquiry[Retried]:
    """The same for all failed jobs that match."""
    by_queue = yield from _failed(queue, task, reason)
    total = sum(map(len, by_queue.values()))
    retried, done = 0, 0
    skipped: dict[str, str] = {}
    for name, ids in by_queue.items():
        for chunk in _chunks(ids):
            answer: ops.Replayed = yield ops.Replay(chunk, name)
            retried += len(answer.replayed)
            skipped |= answer.skipped
            done += len(chunk)
            if progress:
                progress(done, total)
    return Retried(retried, skipped)


def forget(ids: str | Iterable[str]) -> Inquiry[int]:
    """Delete failed or kept jobs."""
    forgotten = 0
    for chunk in _chunks([ids] if isinstance(ids, str) else list(ids)):
        forgotten += yield ops.Forget(chunk)
    return forgotten


def forget_failed(queue: str | None, task: str | None, reason: str | None, progress: Progress | None) -> Inquiry[int]:
    """The same for all failed jobs that match."""
    by_queue = yield from _failed(queue, task, reason)
    total = sum(map(len, by_queue.values()))
    forgotten, done = 0, 0
    for name, ids in by_queue.items():
        for chunk in _chunks(ids):
            forgotten += yield ops.Forget(chunk, name)
            done += len(chunk)
            if progress:
                progress(done, total)
    return forgotten


def prune(
    age_us: int | None, most: int | None, queue: str | None, task: str | None, progress: Progress | None
) -> Inquiry[int]:
    """Delete old failed jobs, batch by batch.

    Raises:
        ConfigError: neither an age nor a number is given, or the number is negative.
    """
    if age_us is None and most is None:
        raise ConfigError("prune needs older_than or most: what is to go?")
    if most is not None and (type(most) is not int or most < 0):
        raise ConfigError(f"most is {most!r}: use a whole number of 0 or more")
    pruned = 0
    while True:
        batch: ops.Pruned = yield ops.Prune(age_us, most, queue, task, PAGE)
        pruned += batch.failed
        if progress:
            progress(pruned, 0)
        if not batch.more:
            return pruned


def _failed(queue: str | None, task: str | None, reason: str | None) -> Inquiry[dict[str, list[str]]]:
    """All matching ids, by queue. They are collected first: what fails again meanwhile is not retried twice (B135)."""
    found: dict[str, list[str]] = {}
    cursor = None
    while True:
        page: ops.Page = yield ops.List(State.FAILED, queue, task, reason, PAGE, cursor)
        for view in page.jobs:
            found.setdefault(view.queue, []).append(view.id)
        cursor = page.next
        if cursor is None:
            return found


def _chunks(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(ids), PAGE):
        yield tuple(ids[start : start + PAGE])


# -- will this code run what is waiting?


def check_waiting(tasks: Tasks, limit: int, progress: Progress | None) -> Inquiry[list[Problem]]:
    """Decode up to `limit` waiting jobs as a worker with these tasks would."""
    problems: list[Problem] = []
    seen = 0
    for state in (State.READY, State.SCHEDULED, State.PARKED):
        cursor = None
        while seen < limit:
            page: ops.Page = yield ops.List(state, limit=min(PAGE, limit - seen), cursor=cursor, bodies=True)
            for view in page.jobs:
                problem = problem_of(view.body or b"", tasks)
                if problem:
                    problems.append(Problem(view.id, view.task, view.queue, problem))
            seen += len(page.jobs)
            cursor = page.next
            if progress:
                progress(seen, limit)
            if cursor is None:
                break
    return problems


def problem_of(body: bytes, tasks: Tasks) -> str:
    """Why a worker with these tasks could not run the job; empty when it could."""
    try:
        envelope = codec.decode(body)
    except UnreadableEnvelope as error:
        return str(error)
    task = tasks.get(envelope.task)
    if task is None:
        return f"no task is named {envelope.task!r}: keep it, or give its successor aliases=[{envelope.task!r}]"
    try:
        task.arguments.decode(envelope.args)
    except InvalidArguments as error:
        return str(error)
    return ""


def page(
    state: str, *, queue: str | None, task: str | None, reason: str | None, limit: int, cursor: str | None
) -> Inquiry[ops.Page]:
    """One page of jobs.

    Raises:
        ConfigError: there is no such state, the limit is below 1, or the cursor is none that a page gave.
    """
    if state not in set(State):
        raise ConfigError(f"state is {state!r}: use one of {', '.join(State)}")
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"limit is {limit!r}: use a whole number of at least 1")
    try:
        found: ops.Page = yield ops.List(State(state), queue, task, reason, limit, cursor)
    except ValueError:
        raise ConfigError(f"cursor is {cursor!r}: use the one that the page before gave") from None
    return found
