"""Look at and act on jobs, from coroutines: the twin of `jobs.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from headrace import explain, inquiries
from headrace.core import operations as ops
from headrace.core.durations import micros
from headrace.core.failures import FailedFilter, FailureGroup
from headrace.core.states import State
from headrace.failures import repairs
from headrace.failures.repairs import Edited, Retried
from headrace.failures.replays import AsyncReplays
from headrace.inquiries import App, Problem, Progress, adrive
from headrace.jobinfo import JobInfo, JobPage, OnceInfo, listed


class AsyncJobs:
    """`app.ajobs`."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.replays = AsyncReplays(app)

    async def get(self, id: str) -> JobInfo | None:
        """One job with its arguments and history; None when the store does not have it (any more)."""
        return await adrive(inquiries.get(id, self._app.tasks), self._app.driver)

    async def once(self, task: str, key: str, *, queue: str | None = None) -> OnceInfo:
        """The record of a task's once key: who holds it, or what the one who took effect has left.

        Of an app on Redis, keys are those of a queue: by default that of the task.

        Raises:
            ConfigError: there is no task of that name, and no `queue` is given.
            InvalidArguments: the key can be none.
        """
        return await adrive(inquiries.once(task, key, queue, self._app.tasks), self._app.driver)

    async def list(
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
        page = await adrive(
            inquiries.page(state, queue=queue, task=task, reason=reason, limit=limit, cursor=cursor), self._app.driver
        )
        return JobPage(tuple(map(listed, page.jobs)), page.next)

    async def cancel(self, id: str) -> Literal["cancelled", "requested", "finished", "absent"]:
        """Cancel a waiting job, or ask the worker of a running one ("requested"). It can be looked at for 24 h."""
        return await self._app.driver.arun(ops.Cancel(id, keep_us=ops.CANCELLED_KEEP_US))

    async def retry(self, ids: str | Iterable[str]) -> Retried:
        """Make failed jobs ready again with their counts reset: same id, options and unique key."""
        return await adrive(repairs.retry(ids), self._app.driver)

    async def retry_failed(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        where: FailedFilter | None = None,
        progress: Progress | None = None,
    ) -> Retried:
        """The same for all failed jobs that match. `progress` is called with (done, total).

        What fails again meanwhile is left as it is. For thousands of jobs see `replays`, which can be paced, tried with
        a few jobs first, looked at, cancelled and resumed.
        """
        meant = repairs.meant(queue, task, reason, where)
        return await adrive(repairs.retry_failed(meant, progress), self._app.driver)

    async def forget(self, ids: str | Iterable[str]) -> int:
        """Delete failed or kept jobs; answers how many there were."""
        return await adrive(repairs.forget(ids), self._app.driver)

    async def forget_failed(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        reason: str | None = None,
        where: FailedFilter | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Delete all failed jobs that match; answers how many there were."""
        meant = repairs.meant(queue, task, reason, where)
        return await adrive(repairs.forget_failed(meant, progress), self._app.driver)

    async def find_failed(
        self, where: FailedFilter | None = None, *, limit: int = 100, cursor: str | None = None
    ) -> JobPage:
        """A page of the failed jobs that `where` means, newest first, without their arguments.

        The store filters by queue, task and reason; for the rest, pages are read until there are enough.

        Raises:
            ConfigError: the limit is below 1, or the cursor is none that a page gave.
        """
        page = await adrive(repairs.find(where or FailedFilter(), limit, cursor), self._app.driver)
        return JobPage(tuple(map(listed, page.jobs)), page.next)

    async def failure_groups(
        self, where: FailedFilter | None = None, *, progress: Progress | None = None
    ) -> Sequence[FailureGroup]:
        """Failed jobs by what went wrong and where, the largest group first. `progress` is called with (seen, 0)."""
        return await adrive(repairs.groups(where or FailedFilter(), progress), self._app.driver)

    async def edit(
        self,
        id: str,
        changes: Mapping[str, Any],
        *,
        drop: Collection[str] | None = (),
        by: str,
        why: str = "",
        dry_run: bool = False,
    ) -> Edited:
        """Give a failed job other arguments, checked against its task's signature before they are stored.

        Its id, options, unique key and place among the failed stay; retry or replay it afterwards. Its once key is made
        anew. Who changed what, when and why stays with the job, its last 10 corrections.

        Args:
            id: of the job.
            changes: arguments by name, as for `enqueue`.
            drop: names of arguments that go; None: all that are not in `changes`.
            by: who does it.
            why: what for.
            dry_run: check and compare only.

        Raises:
            RepairError: there is no such job, it has not failed, or has changed meanwhile.
            UnknownTask: the app has no task of that name.
            InvalidArguments, PayloadTooLarge: the arguments do not fit.
            UnreadableEnvelope: the message cannot be read, so that nothing in it can be changed.
        """
        inquiry = repairs.edit(id, self._app.tasks, changes, drop, by=by, why=why, dry_run=dry_run)
        return await adrive(inquiry, self._app.driver)

    async def prune(
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
        return await adrive(repairs.prune(age_us, most, queue, task, progress), self._app.driver)

    async def queues(self) -> Sequence[ops.QueueView]:
        """All queues with their counts, sorted by name."""
        return await self._app.driver.arun(ops.Queues())

    async def workers(self) -> Sequence[ops.WorkerView]:
        """All registered workers."""
        return await self._app.driver.arun(ops.Workers())

    async def why(self, id: str) -> Sequence[str]:
        """Plain sentences: where a job stands and why it is not running."""
        return await adrive(explain.why(id, self._app.clock.unix_us(), self._app.tasks), self._app.driver)

    async def check_waiting(self, limit: int = 10_000, *, progress: Progress | None = None) -> Sequence[Problem]:
        """Which of up to `limit` waiting jobs this code could not run: to be asked before a deploy."""
        return await adrive(inquiries.check_waiting(self._app.tasks, limit, progress), self._app.driver)

    async def inspect(self) -> Sequence[ops.Finding]:
        """What the store's settings promise, and what to change."""
        return await self._app.driver.arun(ops.Inspect())
