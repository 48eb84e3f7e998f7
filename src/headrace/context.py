"""What a handler may know about the job it runs."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core import settle
from headrace.core.codec import Envelope
from headrace.core.moments import aware
from headrace.core.operations import ClaimedJob
from headrace.core.trail import Trail
from headrace.errors import TaskError
from headrace.sending import refuse_in_loop

if TYPE_CHECKING:
    from headrace.completion import Completion


class JobContext(msgspec.Struct, kw_only=True):
    """The running job. Reading is safe from any thread."""

    id: str
    task: str
    queue: str
    attempt: int  # 1 for the first run; of a poll, since the upstream's last answer
    token: int  # grows with each claim of this job
    enqueued_us: int  # on the store's clock
    deadline_us: int | None = None  # no retry starts after
    poll: int = 0  # of a poll: which query this is, 1 for the first
    headers: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    tenant: str | None = None
    logged: dict[str, Any] = {}  # the arguments that every log line of this job carries
    arguments: dict[str, Any] = {}  # as the handler gets them: for middleware (B111)
    cancel_requested: bool = False  # somebody wants this run to end: stop when it is safe to
    once_key: str = ""  # hand it to a service that takes idempotency keys; empty for a task without once=
    once_fence: int | None = None
    apart: bool = False  # it runs in a child process of the worker
    completion: Completion | None = None  # of the worker that runs it

    @classmethod
    def of(cls, job: ClaimedJob, envelope: Envelope, trail: Trail, task: str, arguments: dict[str, Any]) -> JobContext:
        """The context of one claim."""
        deadline_us = None
        if envelope.deadline_in_us is not None or envelope.deadline_at_us is not None:
            _, deadline_us = settle.limits(job.created_us, job.base_us, envelope)
        return cls(
            id=job.id,
            task=task,
            queue=job.queue,
            attempt=trail.attempts + 1,
            token=job.token,
            enqueued_us=job.created_us,
            deadline_us=deadline_us,
            headers=envelope.headers,
            tags=envelope.tags,
            tenant=envelope.tenant,
            arguments=arguments,
        )

    @property
    def fence(self) -> int:
        """Hand it to a service that takes fencing tokens: a later run always has a greater one.

        Of a task with `once=` it grows per key, with each job that holds it; else per job, with each of its claims.
        """
        return self.token if self.once_fence is None else self.once_fence

    @property
    def enqueued(self) -> datetime:
        """When the job was enqueued, aware, in UTC."""
        return aware(self.enqueued_us)

    @property
    def deadline(self) -> datetime | None:
        """After this moment no further run starts; aware, in UTC."""
        return None if self.deadline_us is None else aware(self.deadline_us)

    def complete(self, *, transaction: Any, result: Any = None) -> None:
        """End this job as succeeded in a transaction of the handler's own: the two commit together, or neither does.

        `transaction` is what `task.using(transaction=...)` takes, of the database that holds the jobs. Commit it
        before the handler returns. What the handler does after the commit is its own affair: the job has ended.
        `result` is what the once record of a task with `once=` keeps.

        Raises:
            LeaseLost: another run of this job counts, or it has been ended. Let it pass, so that all is rolled back.
            ConfigError: it is no transaction of the database with the jobs, or they are in none.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("complete", "acomplete")
        self._completion().complete(transaction, result)

    async def acomplete(self, *, transaction: Any, result: Any = None) -> None:
        """The same, awaited."""
        await self._completion().acomplete(transaction, result)

    def _completion(self) -> Completion:
        if self.apart:
            raise TaskError(
                "a job of a task with run_in='process' cannot be ended in a transaction, since its worker would not "
                "know of it: make the handler safe to repeat, as with app.inbox(session, current_job().id), or leave "
                "out run_in"
            )
        if self.completion is None:
            raise TaskError("this job is run by no worker, so there is nothing to complete")
        return self.completion

    def request_cancel(self) -> None:
        """Ask the handler to end: called by the worker."""
        self.cancel_requested = True


_current: ContextVar[JobContext | None] = ContextVar("headrace_job", default=None)


def enter(context: JobContext | None) -> None:
    """Make `context` the current one of this asyncio task, or of this copy of a thread's context."""
    _current.set(context)


def running_job() -> JobContext | None:
    """The job this code runs in, None where there is none."""
    return _current.get()


def current_job() -> JobContext:
    """The job this code runs in, in coroutines and in the threads of synchronous handlers.

    Raises:
        TaskError: no job is running here.
    """
    context = _current.get()
    if context is None:
        raise TaskError("current_job() was called outside of a job: pass what you need as arguments")
    return context
