"""Drivers for tests: the memory driver, watched, and with answers that get lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.operations import Operation
from headrace.core.ports import Wakeup
from headrace.core.states import State
from headrace.drivers.memory import MemoryDriver
from headrace.drivers.system import SystemClock
from headrace.errors import StoreUnavailable
from headrace.stores.memory import MemoryStore
from headrace.task import Task

R = TypeVar("R")


class WatchedDriver:
    """Keeps the operations it ran. `trouble` is asked before and after each operation and may raise."""

    def __init__(self) -> None:
        self.inner = MemoryDriver(MemoryStore())
        self.seen: list[Operation[Any]] = []
        self.trouble: Callable[[Operation[Any], str], None] = lambda operation, when: None
        self.gate: asyncio.Event | None = None

    def run(self, operation: Operation[R]) -> R:
        self.seen.append(operation)
        self.trouble(operation, "before")
        answer = self.inner.run(operation)
        self.trouble(operation, "after")
        return answer

    async def arun(self, operation: Operation[R]) -> R:
        if self.gate is not None:
            await self.gate.wait()
        else:
            await asyncio.sleep(0)
        return self.run(operation)

    def wakeup(self, worker: str, queues: Sequence[str]) -> Wakeup:
        return self.inner.wakeup(worker, queues)

    def describe(self) -> str:
        return self.inner.describe()

    def close(self) -> None:
        self.inner.close()

    async def aclose(self) -> None:
        await self.inner.aclose()

    def enqueues(self) -> list[ops.Enqueue]:
        return [operation for operation in self.seen if isinstance(operation, ops.Enqueue)]

    def stored(self) -> set[str]:
        return set(self.inner.model.jobs)


def losing(when: str, times: int) -> Callable[[Operation[Any], str], None]:
    """Trouble that cuts the connection `times` times, "before" or "after" the store has done its work."""
    left = times

    def trouble(operation: Operation[Any], moment: str) -> None:
        nonlocal left
        if moment == when and left > 0:
            left -= 1
            raise StoreUnavailable("the connection was cut")

    return trouble


class JumpingClock(SystemClock):
    """Sleeping takes no time but counts."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def define(app: Headrace, **options: Any) -> Task[..., Any]:
    def mail(order_id: int, note: str = "") -> str:
        return f"{order_id}{note}"

    return app.task(**options)(mail)


def new_job(driver: WatchedDriver) -> ops.NewJob:
    return driver.enqueues()[-1].jobs[-1]


def finish(driver: WatchedDriver, queue: str, state: State = State.SUCCEEDED) -> list[str]:
    claimed = driver.run(ops.Claim("w", len(driver.seen) + 1, (queue,), 100, 30_000_000))
    driver.run(ops.Settle("w", tuple(ops.Outcome(job.id, job.queue, job.token, state) for job in claimed.jobs)))
    return [job.id for job in claimed.jobs]
