"""Look at and act on jobs, from synchronous code. `ajobs.py` has the same methods, awaited; a test compares them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from headrace import explain, inquiries
from headrace.core import operations as ops
from headrace.core.durations import micros
from headrace.core.failures import FailedFilter, FailureGroup
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.failures import repairs
from headrace.failures.repairs import Edited, Retried
from headrace.failures.replays import Replays
from headrace.inquiries import App, Problem, Progress, drive
from headrace.jobinfo import JobInfo, JobPage, OnceInfo, listed
from headrace.sending import refuse_in_loop


class Jobs:
    """`app.jobs`. Inside a running event loop every method raises `WrongColour`, as it would block it."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.replays = Replays(app)

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
        return JobPage(tuple(map(listed, page.jobs)), page.next)

    def cancel(self, id: str) -> Literal["cancelled", "requested", "finished", "absent"]:
        """Cancel a waiting job, or ask the worker of a running one ("requested"). It can be looked at for 24 h."""
        return self._driver("cancel").run(ops.Cancel(id, keep_us=ops.CANCELLED_KEEP_US))

    def retry(self, ids: str | Iterable[str]) -> Retried:
        """Make failed jobs ready again with their counts reset: same id, options and unique key."""
        return drive(repairs.retry(ids), self._driver("retry"))

    def retry_failed(
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
        return drive(repairs.retry_failed(meant, progress), self._driver("retry_failed"))

    def forget(self, ids: str | Iterable[str]) -> int:
        """Delete failed or kept jobs; answers how many there were."""
        return drive(repairs.forget(ids), self._driver("forget"))

    def forget_failed(
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
        return drive(repairs.forget_failed(meant, progress), self._driver("forget_failed"))

    def find_failed(self, where: FailedFilter | None = None, *, limit: int = 100, cursor: str | None = None) -> JobPage:
        """A page of the failed jobs that `where` means, newest first, without their arguments.

        The store filters by queue, task and reason; for the rest, pages are read until there are enough.

        Raises:
            ConfigError: the limit is below 1, or the cursor is none that a page gave.
        """
        page = drive(repairs.find(where or FailedFilter(), limit, cursor), self._driver("find_failed"))
        return JobPage(tuple(map(listed, page.jobs)), page.next)

    def failure_groups(
        self, where: FailedFilter | None = None, *, progress: Progress | None = None
    ) -> Sequence[FailureGroup]:
        """Failed jobs by what went wrong and where, the largest group first. `progress` is called with (seen, 0)."""
        return drive(repairs.groups(where or FailedFilter(), progress), self._driver("failure_groups"))

    def edit(
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
        return drive(inquiry, self._driver("edit"))

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
        return drive(repairs.prune(age_us, most, queue, task, progress), self._driver("prune"))

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
