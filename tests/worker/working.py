"""Workers inside the test's own process, for whatever needs no death."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from headrace import Headrace
from headrace.drivers.memory import MemoryDriver
from headrace.jobinfo import JobInfo
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from headrace.worker import Worker, WorkerOptions
from tests.waiting import await_until

T = TypeVar("T")
KEEP = 3600.0


@asynccontextmanager
async def working(app: Headrace, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs inside the block, in real time, and is stopped at its end."""
    worker = app.worker(**{"grace": 0.0, **options})
    run = asyncio.create_task(worker.run())
    await worker.started.wait()
    try:
        yield worker
    finally:
        worker.stop()
        await run


@asynccontextmanager
async def working_virtually(app: Headrace, id: str = "w", **options: Any) -> AsyncIterator[Worker]:
    """The same on virtual time, inside `virtually`."""
    queues = tuple(sorted({task.queue for task in app.tasks.values()}))
    worker = Worker(app, WorkerOptions(queues=queues, **{"grace": 0.0, **options}), id=id, threaded_heart=False)
    run = asyncio.create_task(worker.run())
    await worker.started.wait()
    try:
        yield worker
    finally:
        worker.stop()
        await run


def virtually(main: Callable[[Headrace], Awaitable[T]]) -> T:
    """Run `main` with an app in memory, all on one virtual clock."""
    clock = VirtualClock()
    app = Headrace("memory://")
    app.driver = MemoryDriver(MemoryStore(now=clock))

    async def run() -> T:
        return await main(app)

    return run_virtual(run(), clock)


async def work_for(seconds: float) -> None:
    """What a handler does that takes its time. Cancelled, it ends at once."""
    over = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(seconds, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()


async def state_of(app: Headrace, id: str) -> str:
    """Where a job is; "gone" when it has left the store."""
    job = await app.ajobs.get(id)
    return "gone" if job is None else job.state.value


async def ended(app: Headrace, id: str, state: str) -> JobInfo:
    """Wait until a job is in `state`."""

    async def reached() -> JobInfo | None:
        job = await app.ajobs.get(id)
        return job if job is not None and job.state == state else None

    job = await await_until(reached, 20, f"job {id} to be {state}")
    assert job is not None
    return job
