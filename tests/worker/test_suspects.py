"""Suspects are jobs whose next crash may convict them: they run alone, and a conviction is counted before that."""

import asyncio
from typing import Any

from headrace import Headrace, State
from headrace.core import trail
from headrace.core.hold import Hold, decode
from headrace.core.registers import Amend, LookRegisters
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore
from headrace.worker import Worker, WorkerOptions
from tests.worker.deadly import Mortal, Site, SlowLooks, virtually, watch
from tests.worker.working import work_for

SUSPECT = trail.Trail(crashes=2)


async def hold(app: Headrace) -> Hold | None:
    views = await app.driver.arun(LookRegisters("hold:"))
    return decode(views[0].body) if views else None


def test_a_convicted_job_does_not_wait_for_an_empty_worker() -> None:
    """Should the worker die of another job meanwhile, that one would share the blame for it, and it would run again."""

    async def main(site: Site) -> None:
        app = site.app("v1")
        async with site.working(app, concurrency=2):
            await app.tasks["deadly"].aenqueue(-1)
            await work_for(2)
            assert site.numbers() == [-1]  # goes on for ever
            await site.murders(app, 1)
            await work_for(2)
            assert watch(app).outcomes == {(State.FAILED, "crashed"): 1}
        assert site.numbers() == [-1]

    virtually(main)


def test_a_worker_that_stops_has_its_convictions_counted() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=1)
        await site.murders(app, 1)
        app.driver = SlowLooks(MemoryStore(now=site.clock), site.model)  # it looks at what is held, again and again
        async with site.working(app):
            await work_for(0.3)
        found = await hold(app)
        assert found is not None
        assert found.under("v1").held

    virtually(main)


class SlowAndMortal(Mortal, SlowLooks):
    """Of a process that is gone soon, while it looks at what is held."""


def test_a_conviction_is_counted_before_a_suspect_may_kill_the_worker() -> None:
    """Both came with one claim."""

    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=1)
        await site.murders(app, 2, SUSPECT)
        await site.kill(app, 1)
        app.driver = driver = SlowAndMortal(MemoryStore(now=site.clock), site.model)
        worker = Worker(app, WorkerOptions(queues=("default",), grace=0.0), id="w", threaded_heart=False)
        run = asyncio.create_task(worker.run())
        await worker.started.wait()
        await work_for(0.2)
        driver.dead = True
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert site.numbers() == []

    virtually(main)


class SlowAmends(MemoryDriver):
    """Takes its time to answer whether a suspect may run."""

    async def arun(self, operation: Any) -> Any:
        if isinstance(operation, Amend):
            await work_for(2)
        return await super().arun(operation)


def test_a_worker_that_was_told_to_stop_meanwhile_runs_no_suspect() -> None:
    async def main(site: Site) -> None:
        app = site.app("v1", hold_after=1)
        (job,) = await site.murders(app, 1, SUSPECT, number=7)
        app.driver = SlowAmends(MemoryStore(now=site.clock), site.model)
        async with site.working(app, grace=5.0):
            await work_for(0.5)
        assert site.numbers() == []
        info = await app.ajobs.get(job)
        assert info is not None
        assert info.state is State.READY

    virtually(main)
