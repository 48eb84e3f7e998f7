"""What all parts of one worker share: its settings, the store, the clock, the table of what it holds, the stop sign."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.circuits import Circuit, QueueOptions
from headrace.config import Config
from headrace.core import codec, settle
from headrace.core.ports import Driver
from headrace.core.retry import Retry
from headrace.errors import UnreadableEnvelope
from headrace.failures.hooks import FailureHooks
from headrace.middleware import Middleware, checked
from headrace.task import Task
from headrace.worker.options import WorkerOptions
from headrace.worker.steps import Tasks
from headrace.worker.storetime import StoreTime
from headrace.worker.table import Table, Work

if TYPE_CHECKING:
    from headrace.worker.gates import Gates
    from headrace.worker.holds import Holds


class Host(Protocol):
    """What a worker needs of its app."""

    @property
    def driver(self) -> Driver: ...
    @property
    def tasks(self) -> Tasks: ...
    @property
    def middleware(self) -> Sequence[Middleware]: ...
    @property
    def rng(self) -> random.Random: ...
    @property
    def config(self) -> Config: ...
    @property
    def circuits(self) -> Mapping[str, Circuit]: ...
    @property
    def queue_options(self) -> Mapping[str, QueueOptions]: ...
    @property
    def failure_hooks(self) -> FailureHooks: ...


class Shared:
    """Handed to every part; the parts know each other only where their constructors say so."""

    gates: Gates  # set by the worker
    holds: Holds  # likewise

    def __init__(self, app: Host, options: WorkerOptions, id: str) -> None:
        self.id = id
        self.options = options
        self.driver: Driver = app.driver
        self.tasks: Tasks = app.tasks
        self.middleware: Sequence[Middleware] = checked(app.middleware)
        self.rng: random.Random = app.rng
        self.hooks = app.failure_hooks
        self.version = app.config.version or ""
        keep_s = app.config.keep_failed_s
        self.keep_failed = (None if keep_s is None else round(keep_s * 1_000_000), app.config.keep_failed_most)
        self.hold_after = app.config.hold_after
        self.parks = bool(app.circuits)  # whether jobs of this app may be parked
        self.lease_us = app.config.lease_us
        self.heartbeat_s = app.config.heartbeat_s
        self._certain_s = self.lease_us / 1_000_000 - self.heartbeat_s
        self.table = Table()
        self.store_time = StoreTime(self.monotonic)
        self._policies: dict[str, settle.Policy] = {}
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop the worker runs in, as of its first use there."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    @property
    def stopping(self) -> bool:
        """No claim begins any more."""
        return self._stop.is_set()

    def stop_claiming(self) -> None:
        """Let no claim begin any more, and wake whoever waits for a reason to."""
        self._stop.set()

    async def sleep(self, seconds: float) -> None:
        """About so long: workers that do something by the clock do not do it together."""
        await asyncio.sleep(seconds * (0.75 + 0.5 * self.rng.random()))

    def monotonic(self) -> float:
        """Seconds of the event loop's clock."""
        return (self._loop or self.loop).time()  # three times for each job

    def in_doubt(self, work: Work) -> bool:
        """Whether the lease of a job may be over, or will be within a heartbeat, as far as this process can tell."""
        return self.monotonic() - work.confirmed_at > self._certain_s

    def task_of(self, work: Work) -> Task[..., Any] | None:
        """The task of a claimed job, as far as it can be known before it is prepared."""
        try:
            return self.tasks.get(codec.decode(work.job.body).task)
        except UnreadableEnvelope:
            return None

    def policy(self, work: Work) -> settle.Policy:
        """What bounds the retries of this job."""
        task = work.task
        if task is None:
            return settle.Policy(Retry())
        policy = self._policies.get(task.name)
        if policy is None:
            policy = self._policies[task.name] = settle.Policy(task.retry, keep_us=task.keep_us, poll=task.poll)
        envelope = work.envelope
        if envelope is not None and (
            envelope.deadline_at_us is not None or envelope.deadline_in_us is not None or task.poll is not None
        ):
            _, deadline = settle.limits(work.job.created_us, work.job.base_us, envelope, task.poll)
            return settle.Policy(task.retry, keep_us=task.keep_us, deadline_us=deadline, poll=task.poll)
        return policy

    async def either(self, wait: Coroutine[Any, Any, object]) -> None:
        """Await `wait`, but no longer than until the worker stops."""
        waits = [asyncio.ensure_future(wait), asyncio.ensure_future(self._stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        if not waits[0].cancelled():
            waits[0].result()
