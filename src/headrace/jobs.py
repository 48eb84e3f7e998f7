"""Look at and act on jobs, from synchronous code. `ajobs.py` has the same methods, awaited; a test compares them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol

from headrace import explain, inquiries
from headrace.core import operations as ops
from headrace.core.durations import micros
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.drivers.system import SystemClock
from headrace.inquiries import Problem, Progress, Retried, drive
from headrace.jobinfo import JobInfo, JobPage, OnceInfo, job_info
from headrace.sending import refuse_in_loop
from headrace.task import Task


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


class Jobs:
    """`app.jobs`. Inside a running event loop every method raises `WrongColour`, as it would block it."""

    def __init__(self, app: App) -> None:
        self._app = app

    def _driver(self, method: str) -> Driver:
        refuse_in_loop(f"app.jobs.{method}", f"app.ajobs.{method}")
        return self._app.driver

    def get(self, id: str) -> JobInfo | None:
        """One job with its arguments and history; None when the store does not have it (any more)."""
        return drive(inquiries.get(id, self._app.tasks), self._driver("get"))

    def once(self, task: str, key: str, *, queue: str | None = None) -> OnceInfo:
        """The record of a task's once key: who holds it, or what the one who took effect has left.

        Of an app on Redis, keys are those of a queue: by default that of the task.

        Raises:
            ConfigError: there is no task of that name, and no `queue` is given.
            InvalidArguments: the key can be none.
        """
        return drive(inquiries.once(task, key, queue, self._app.tasks), self._driver("once"))

    def list(
        self,
        state: State | str = State.FAILED,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> JobPage:
        """A page of jobs in one state, without their arguments: failed ones newest first, others in queue order."""
        page = drive(
            inquiries.page(state, queue=queue, task=task, reason=reason, limit=limit, cursor=cursor),
            self._driver("list"),
        )
        return JobPage(tuple(map(job_info, page.jobs)), page.next)

    def cancel(self, id: str) -> Literal["cancelled", "requested", "finished", "absent"]:
        """Cancel a waiting job, or ask the worker of a running one ("requested"). It can be looked at for 24 h."""
        return self._driver("cancel").run(ops.Cancel(id, keep_us=ops.CANCELLED_KEEP_US))

    def retry(self, ids: str | Iterable[str]) -> Retried:
        """Make failed jobs ready again with their counts reset: same id, options and unique key."""
        return drive(inquiries.retry(ids), self._driver("retry"))

    def retry_failed(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        progress: Progress | None = None,
    ) -> Retried:
        """The same for all failed jobs that match. `progress` is called with (done, total)."""
        return drive(inquiries.retry_failed(queue, task, reason, progress), self._driver("retry_failed"))

    def forget(self, ids: str | Iterable[str]) -> int:
        """Delete failed or kept jobs; answers how many there were."""
        return drive(inquiries.forget(ids), self._driver("forget"))

    def forget_failed(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Delete all failed jobs that match; answers how many there were."""
        return drive(inquiries.forget_failed(queue, task, reason, progress), self._driver("forget_failed"))

    def prune(
        self,
        *,
        older_than: timedelta | float | str | None = None,
        most: int | None = None,
        queue: str | None = None,
        task: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Delete failed jobs older than a duration (seconds, timedelta, "30d"), and the oldest beyond `most`."""
        age_us = None if older_than is None else micros(older_than, "older_than")
        return drive(inquiries.prune(age_us, most, queue, task, progress), self._driver("prune"))

    def queues(self) -> Sequence[ops.QueueView]:
        """All queues with their counts, sorted by name."""
        return self._driver("queues").run(ops.Queues())

    def workers(self) -> Sequence[ops.WorkerView]:
        """All registered workers."""
        return self._driver("workers").run(ops.Workers())

    def why(self, id: str) -> Sequence[str]:
        """Plain sentences: where a job stands and why it is not running."""
        return drive(explain.why(id, self._app.clock.unix_us(), self._app.tasks), self._driver("why"))

    def check_waiting(self, limit: int = 10_000, *, progress: Progress | None = None) -> Sequence[Problem]:
        """Which of up to `limit` waiting jobs this code could not run: to be asked before a deploy."""
        return drive(inquiries.check_waiting(self._app.tasks, limit, progress), self._driver("check_waiting"))

    def inspect(self) -> Sequence[ops.Finding]:
        """What the store's settings promise, and what to change."""
        return self._driver("inspect").run(ops.Inspect())
