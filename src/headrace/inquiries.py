"""Questions to the store that take several operations, as generators: `Jobs` and `AsyncJobs` run the same ones.

A generator yields operations, receives their answers, and returns its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from headrace.core import codec, keys
from headrace.core import operations as ops
from headrace.core.once import task_scope
from headrace.core.once_records import LookOnce, OnceView
from headrace.core.poll import Polling
from headrace.core.ports import Driver
from headrace.core.registers import LookRegisters, RegisterView
from headrace.core.states import State
from headrace.core.wording import near
from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, InvalidArguments, UnreadableEnvelope
from headrace.jobinfo import JobInfo, OnceInfo, job_info, once_info
from headrace.task import Task

R = TypeVar("R")
Inquiry = Generator[ops.Operation[Any], Any, R]
Tasks = Mapping[str, Task[..., Any]]
Progress = Callable[[int, int], None]
"""Called with how many are done and how many there are in all (0: not known)."""

PAGE = 1_000


def registers(prefix: str) -> Inquiry[list[RegisterView]]:
    """All whose names begin so, in the order of their names."""
    found: list[RegisterView] = []
    while True:
        views: list[RegisterView] = yield LookRegisters(prefix, PAGE, found[-1].name if found else "")
        found += views
        if len(views) < PAGE:
            return found


class App(Protocol):
    """What is needed of an app."""

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """Tasks by name."""
        ...

    @property
    def clock(self) -> SystemClock:
        """This machine's clock: for sentences only."""
        ...

    def new_id(self) -> str:
        """An id."""
        ...


class Pause(msgspec.Struct, ops.Operation[None], frozen=True):
    """No operation of a store: let so many seconds go by."""

    writes = False
    seconds: float

    def paused(self) -> Any:
        """In this thread."""
        SystemClock().sleep(self.seconds)

    async def apaused(self) -> Any:
        """The same, awaited."""
        from asyncio import sleep  # noqa: PLC0415 - a synchronous caller need not load it

        await sleep(self.seconds)


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
                answer = operation.paused() if isinstance(operation, Pause) else driver.run(operation)
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
                answer = await (operation.apaused() if isinstance(operation, Pause) else driver.arun(operation))
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
