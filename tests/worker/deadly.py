"""A store on a virtual clock, workers of several versions of the code, and a task that kills them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from headrace import Headrace, Middleware, Retry, State
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.operations import Outcome
from headrace.core.registers import LookRegisters
from headrace.drivers.memory import MemoryDriver
from headrace.signals import Signal
from headrace.stores.memory import MemoryStore, Model
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from headrace.worker import Worker, WorkerOptions
from tests.worker.working import work_for, working_virtually

T = TypeVar("T")
DEADLY = trail.Trail(crashes=3, alone=True)


class Watch(Middleware):
    """What it is told."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []
        self.outcomes: Counter[tuple[State, str]] = Counter()

    def noticed(self, signal: Signal) -> None:
        self.signals.append(signal)

    def ended(self, job: object, outcome: Outcome) -> None:
        self.outcomes[outcome.state, outcome.reason] += 1


class Mortal(MemoryDriver):
    """Of a process that may be gone."""

    dead = False

    async def arun(self, operation: Any) -> Any:
        if self.dead:
            await asyncio.Event().wait()
        return await super().arun(operation)


class SlowLooks(MemoryDriver):
    """Takes its time to say what is held."""

    async def arun(self, operation: Any) -> Any:
        if isinstance(operation, LookRegisters):
            await work_for(1)
        return await super().arun(operation)


class Site:
    """One store on a virtual clock, and apps of several versions of the code."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.model = Model()
        self.ran: list[tuple[str | None, str, int]] = []
        self.workers = 0

    def app(self, version: str | None = None, **options: Any) -> Headrace:
        app = Headrace("memory://", version=version, **options)
        app.driver = MemoryDriver(MemoryStore(now=self.clock), self.model)
        app.middleware.append(Watch())

        @app.task(name="deadly", retry=Retry(max_crashes=3))
        async def deadly(number: int) -> None:
            self.ran.append((version, "deadly", number))
            if number < 0:
                await asyncio.Event().wait()

        @app.task(name="harmless")
        async def harmless(number: int) -> None:
            self.ran.append((version, "harmless", number))

        return app

    def working(self, app: Headrace, **options: Any) -> AbstractAsyncContextManager[Worker]:
        self.workers += 1
        return working_virtually(app, f"w{self.workers}", **options)

    async def die(self, app: Headrace) -> None:
        """A worker of `app` runs one job alone, and is gone in the middle of it: nothing of it reaches the store."""
        runs, driver = len(self.ran), Mortal(MemoryStore(now=self.clock), self.model)
        app.driver = driver
        self.workers += 1
        worker = Worker(app, WorkerOptions(queues=("default",), grace=0.0), id=f"w{self.workers}", threaded_heart=False)
        run = asyncio.create_task(worker.run())
        await worker.started.wait()
        await work_for(2)
        assert len(self.ran) == runs + 1
        driver.dead = True
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        app.driver = MemoryDriver(MemoryStore(now=self.clock), self.model)

    async def murders(self, app: Headrace, count: int, remembered: trail.Trail = DEADLY, number: int = -1) -> list[str]:
        """Jobs that have killed their workers, and wait for their conviction."""
        jobs = await app.tasks["deadly"].aenqueue_many([{"number": number}] * count)
        await self.kill(app, count, remembered)
        return [job.id for job in jobs]

    async def kill(self, app: Headrace, count: int, remembered: trail.Trail = DEADLY) -> None:
        """The next jobs kill a worker."""
        self.workers += 1
        claimed = await app.driver.arun(ops.Claim(f"dead{self.workers}", 1, ("default",), count, 1))
        outcomes = tuple(
            ops.Outcome(job.id, job.queue, job.token, State.READY, trail=trail.encode(remembered), reason="crashed")
            for job in claimed.jobs
        )
        assert await app.driver.arun(ops.Settle("the dead", outcomes)) == [True] * count

    def numbers(self, task: str = "deadly") -> list[int]:
        return [number for _, name, number in self.ran if name == task]


def watch(app: Headrace) -> Watch:
    (found,) = app.middleware
    assert isinstance(found, Watch)
    return found


async def counted(app: Headrace, state: State) -> int:
    """Jobs in that state."""
    return len((await app.ajobs.list(state, limit=1000)).jobs)


def virtually(main: Callable[[Site], Awaitable[T]]) -> T:
    site = Site()

    async def run() -> T:
        return await main(site)

    return run_virtual(run(), site.clock)
