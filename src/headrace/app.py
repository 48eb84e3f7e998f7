"""The composition root: an app knows its settings, its tasks and its store."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar, overload

from headrace.alerting import AlertApp
from headrace.circuits import CircuitApp
from headrace.config import HEARTBEATS_PER_LEASE, Config
from headrace.core.durations import seconds
from headrace.core.moments import When
from headrace.core.once import Once
from headrace.core.operations import Enqueued, NewJob
from headrace.core.ports import Driver
from headrace.core.retry import Retry
from headrace.core.unique import Unique
from headrace.definition import define
from headrace.drivers.system import IdMaker, SystemClock
from headrace.errors import ConfigError
from headrace.failures.hooks import FailureApp
from headrace.holds import HoldApp
from headrace.options import RunIn, checked_texts, refuse_unknown
from headrace.outbox.mixin import EventApp
from headrace.polling import PollApp
from headrace.sending import Sender
from headrace.task import Task
from headrace.urls import checked_url, make_driver, safe_url

if TYPE_CHECKING:
    from datetime import timedelta

    from headrace.ajobs import AsyncJobs
    from headrace.circuits import Circuit
    from headrace.coalesce import AsyncSender
    from headrace.jobs import Jobs
    from headrace.middleware import Middleware
    from headrace.once import OnceRun
    from headrace.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Headrace(PollApp, EventApp, FailureApp, AlertApp, CircuitApp, HoldApp):
    """An app: its store, its tasks, its settings.

    Safe to make at import time and to share between threads, event loops and forked processes: the store is
    opened by the first operation.

    Args:
        url: `sqlite:///file.db` (relative to the directory at the time of this call), `sqlite:////absolute/file.db`,
            `redis://host:port/db`, `rediss://`, `unix://`, `postgresql://user@host/database`,
            `mysql://user@host/database`, `mariadb://`, or `memory://` (jobs live as long as the process).
        name: prefix of everything in the store; apps with different names share a store unseen. In a database it may
            hold small letters, digits and '_', at most 40.
        lease: how long after its last heartbeat a worker loses its jobs. Seconds, a timedelta, or a text like "30s".
        heartbeat: at most a third of the lease, which is the default.
        resend: how long an enqueue is sent again when the store does not answer; 0 raises at once.
        busy_timeout: SQLite only: how long a statement waits for the file.
        outbox: URL of the database with the outbox, where the jobs live elsewhere than your data.
        version: of the code that runs here, such as a commit. Jobs note it, and a task that is held since it kills
            its workers is tried again under another one.
        hold_after: a task is held once so many of its jobs were convicted of killing their workers within an hour, all
            under one version: the rest of them is parked. None: never.
        keep_failed: how long workers keep failed jobs; None: for ever.
        keep_failed_most: and how many of them, the newest; None: all.
        outbox_mode: "relay", or "cdc" where the table is read from the database's log and no relay may run.

    Raises:
        ConfigError: a setting is out of range or contradicts another, the URL is no address of a store, or the extra
            for it is not installed.
    """

    def __init__(
        self,
        url: str = "sqlite:///headrace.db",
        name: str = "headrace",
        *,
        lease: timedelta | float | str = 30,
        heartbeat: timedelta | float | str | None = None,
        resend: timedelta | float | str = 5,
        busy_timeout: timedelta | float | str = 5,
        version: str | None = None,
        keep_failed: timedelta | float | str | None = "30d",
        keep_failed_most: int | None = 100_000,
        hold_after: int | None = 3,
        outbox: str | None = None,
        outbox_mode: Literal["relay", "cdc"] = "relay",
    ) -> None:
        lease_s = seconds(lease, "lease")
        self.config = Config(
            url=checked_url(url),
            name=name,
            lease_s=lease_s,
            heartbeat_s=lease_s / HEARTBEATS_PER_LEASE if heartbeat is None else seconds(heartbeat, "heartbeat"),
            resend_s=seconds(resend, "resend"),
            busy_timeout_s=seconds(busy_timeout, "busy_timeout"),
            version=None if version is None else checked_texts("version", (version,))[0],
            hold_after=hold_after,
            keep_failed_s=None if keep_failed is None else seconds(keep_failed, "keep_failed"),
            keep_failed_most=keep_failed_most,
            outbox=None if outbox is None else checked_url(outbox),
            outbox_mode=outbox_mode,
        )
        self.clock = SystemClock()
        self.ids = IdMaker(self.clock)
        # of the operating system, so that forked processes do not share a sequence
        self.rng: random.Random = random.SystemRandom()
        self.middleware: list[Middleware] = []
        self._tasks: dict[str, Task[..., Any]] = {}
        self._driver: Driver | None = None
        self._lock = threading.Lock()
        self._sender = Sender(self, self.config.resend_s)

    # -- tasks

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """All tasks by name and by alias."""
        return MappingProxyType(self._tasks)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        queue: str = "default",
        priority: int = 0,
        retry: Retry | int = ...,
        timeout: timedelta | float | str | None = None,
        expires: When | None = None,
        deadline: When | None = None,
        unique: Unique | str | Callable[..., str] | None = None,
        once: Once | str | Callable[..., str] | None = None,
        keep: timedelta | float | str | None = None,
        log: Iterable[str] = (),
        circuit: str | Circuit | None = None,
        run_in: RunIn | None = None,
        hold_after: int | Literal["app"] | None = "app",
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        """Make a function a task: `@app.task` or `@app.task(queue="mail", ...)`.

        Args:
            function: a plain or an async function with annotated parameters.
            name: in the store; by default module and qualified name.
            aliases: former names under which jobs may still wait.
            queue: by default "default".
            priority: -100 to 100, higher runs first within its queue.
            retry: a policy, or the number of attempts. By default 5 attempts with exponential backoff.
            timeout: of one run. None: unlimited.
            expires: a job that has not started by then is expired.
            deadline: no run starts after it.
            unique: a key, see `Unique`; a str is a template such as "order-{order_id}".
            once: a key under which one run takes effect, see `Once`; a str is a template such as "charge:{order_id}".
            keep: how long a succeeded job can still be looked at. By default it is deleted at once.
            log: names of arguments that every log line of the job carries.
            circuit: the circuit around what it calls, or its name; see `circuit`.
            hold_after: that of this task, by default the app's.
            run_in: "process" runs it in a child process, which can be killed. By default an async function runs in
                the worker's event loop, a plain one in a thread.

        Raises:
            ConfigError: an option is unknown or out of range, or another function has this name already.
            TaskError: the function's parameters or annotations cannot be sent.
        """
        refuse_unknown("@app.task", options, define.__kwdefaults__ or ())
        if function is None:
            return lambda decorated: self._register(define(self, decorated, **options))
        return self._register(define(self, function, **options))

    def _register(self, task: Task[P, R]) -> Task[P, R]:
        with self._lock:
            for name in (task.name, *task.aliases):
                other = self._tasks.get(name)
                if other is not None and not _same_code(other.function, task.function):
                    raise ConfigError(
                        f"the task name {name!r} is taken by {other.arguments.function_name}() in "
                        f"{other.function.__module__}: give one of them another name="
                    )
            for name in (task.name, *task.aliases):
                self._tasks[name] = task
        return task

    def once(
        self,
        key: str,
        arguments: Any = None,
        *,
        scope: str = "",
        lifetime: timedelta | float | str = "24h",
        lease: timedelta | float | str = 30,
        wait: timedelta | float | str = 0,
        failures: Literal["free", "keep"] = "free",
    ) -> OnceRun:
        """Code outside of jobs that takes effect once: `with app.once("charge:17") as run`, or `async with`.

        `run.done` tells whether an earlier block took effect, and `run.result` what it left; else assign to it.

        Args:
            key: 1 to 500 characters.
            arguments: a JSON value; the same key with another one is refused.
            scope: at most 200 characters. Keys of one scope are apart from those of others, and from those of tasks.
            lifetime: how long a result is remembered.
            lease: how long the key is held after this process has died. It is renewed while the block runs.
            wait: how long to wait while another block holds the key.
            failures: "free": a block that raises leaves the key free; "keep": its failure is stored.

        Raises:
            ConfigError, InvalidArguments: one of these is out of range.
            OnceBusy: when the block is entered: another one holds the key.
            OnceConflict: the key was used with other arguments.
            OnceFailed: an earlier block has failed, and its failure is kept.
            LeaseLost: when the block ends: the lease was lost, and somebody else has taken the key since.
        """
        from headrace.once import OnceRun, terms

        found = terms(key, arguments, scope=scope, lifetime=lifetime, lease=lease, wait=wait, failures=failures)
        return OnceRun(self, found)

    # -- what tasks ask of their app

    def new_id(self) -> str:
        """An id for a job: UUIDv7, growing within this process."""
        return self.ids()

    def new_ids(self, count: int) -> list[str]:
        """Ids for so many jobs."""
        return self.ids.many(count)

    def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        return self._sender.send(jobs)

    async def asend(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        return await self._async_sender.send(jobs)

    async def asend_one(self, job: NewJob) -> Enqueued:
        """Store one job, together with those of other coroutines."""
        return await self._async_sender.send_one(job)

    @cached_property
    def _async_sender(self) -> AsyncSender:
        from headrace.coalesce import AsyncSender

        return AsyncSender(self, self._sender)

    # -- the store

    @property
    def driver(self) -> Driver:
        """The store with its connection, made when first asked for.

        Raises:
            ConfigError: the extra for this URL is not installed.
        """
        self._before_use()
        driver = self._driver
        if driver is None:
            with self._lock:
                driver = self._driver = self._driver or make_driver(self.config)
        return driver

    @driver.setter
    def driver(self, driver: Driver) -> None:
        self._driver = driver

    @cached_property
    def jobs(self) -> Jobs:
        """Look at and act on jobs, from synchronous code."""
        from headrace.jobs import Jobs

        return Jobs(self)

    @cached_property
    def ajobs(self) -> AsyncJobs:
        """The same, awaited."""
        from headrace.ajobs import AsyncJobs

        return AsyncJobs(self)

    def worker(
        self, queues: Sequence[str] | Mapping[str, float] | str | None = None, *, id: str | None = None, **options: Any
    ) -> Worker:
        """A worker for `queues` (by default those of all tasks, sorted); `await worker.run()` starts it.

        Options are the fields of `WorkerOptions`: concurrency, threads, grace, max_jobs and others.

        Raises:
            ConfigError: an option is out of range.
        """
        from headrace.worker import Worker, WorkerOptions
        from headrace.worker.options import parse_queues

        if queues is None:
            queues = self.task_queues
        names, weights = parse_queues(queues)
        checked_texts("queues", names)
        return Worker(self, WorkerOptions(queues=names, weights=weights, **options), id=id or worker_id())

    def _before_use(self) -> None:
        """Called before a store is handed out: apps of frameworks see here whether it is still the right one."""

    def _move_to(self, config: Config) -> None:
        """Close what is open, and use the stores of other settings from here on."""
        self.close()
        with self._lock:
            self.config = config
            self._driver = None
            self._sender = Sender(self, config.resend_s)
            for made in ("_async_sender", "_outbox_driver"):
                self.__dict__.pop(made, None)

    def _make_driver(self, config: Config) -> Driver:
        return make_driver(config)

    def close(self) -> None:
        """Close what synchronous calls opened. May be called twice; the app opens again when used again."""
        self._close_alerts()
        self._close_outbox()
        if self._driver is not None:
            self._driver.close()

    async def aclose(self) -> None:
        """Close everything."""
        await self._aclose_alerts()
        await self._aclose_outbox()
        if self._driver is not None:
            await self._driver.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Headrace({safe_url(self.config.url)!r}, name={self.config.name!r})"


def worker_id() -> str:
    """Host, process and a random part: a restarted worker is another one."""
    import secrets
    import socket

    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _same_code(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """The same function, or the same place in a module that was loaded again."""
    if one is other:
        return True
    first, second = getattr(one, "__code__", None), getattr(other, "__code__", None)
    if first is None or second is None:
        return False
    return (first.co_filename, first.co_qualname, first.co_firstlineno) == (
        second.co_filename,
        second.co_qualname,
        second.co_firstlineno,
    )
