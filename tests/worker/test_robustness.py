"""What must not cost a job its end, its attempt, or the worker its slots."""

import asyncio
import logging
import threading
from typing import Any

import pytest

from headrace import ConfigError, Headrace, Middleware, Snooze
from headrace.core.operations import Enqueue, NewJob, Operation, Rescue, Rescued, Settle
from headrace.core.trail import Trail, encode
from headrace.drivers.memory import MemoryDriver
from headrace.errors import StoreFull, StoreMisconfigured
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from headrace.worker import Exit, Worker, WorkerOptions
from headrace.worker.threads import NoThreadError, ThreadPool
from headrace.worker.upkeep import JUMP_US
from tests.public.drivers import WatchedDriver
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, state_of, virtually, work_for, working, working_virtually


def test_a_job_that_has_started_does_not_expire() -> None:
    """`expires` means not started by then: a snooze or a release costs nothing, not the job's life either."""

    async def main(app: Headrace) -> int:
        runs = 0

        @app.task(keep=KEEP, expires=5)
        async def wait() -> Snooze | None:
            nonlocal runs
            runs += 1
            return Snooze(60) if runs == 1 else None

        async with working_virtually(app):
            await ended(app, (await wait.aenqueue()).id, "succeeded")
        return runs

    assert virtually(main) == 2


def test_logging_that_raises_strands_no_job() -> None:
    """An application's record factory may set what the worker's lines carry too."""
    before = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.queue = "mine"
        return record

    async def main(app: Headrace) -> None:
        @app.task(retry=1)
        async def fail() -> None:
            raise ValueError("no")

        async with working_virtually(app, concurrency=1):
            for _ in range(3):
                await ended(app, (await fail.aenqueue()).id, "failed")

    logging.setLogRecordFactory(factory)
    try:
        virtually(main)
    finally:
        logging.setLogRecordFactory(before)


@pytest.mark.parametrize("refusal", [ValueError, StoreFull])
def test_what_was_stored_before_the_others_of_its_report_were_refused_has_lost_no_lease(
    caplog: pytest.LogCaptureFixture, refusal: type[Exception]
) -> None:
    """A store may end a few claims in one transaction and a few in another."""

    async def main(app: Headrace) -> tuple[list[str], int]:
        driver = WatchedDriver()
        driver.inner, app.driver = app.driver, driver
        refused = 0

        def refuse(operation: Operation[Any], when: str) -> None:
            nonlocal refused
            if isinstance(operation, Settle) and len(operation.outcomes) == 2 and when == "after" and not refused:
                refused += 1
                raise refusal("not the others")

        driver.trouble = refuse

        @app.task(keep=KEEP)
        async def work() -> None:
            await work_for(5)

        async with working_virtually(app, concurrency=2):
            jobs = await work.aenqueue_many({} for _ in range(2))
            return [(await ended(app, job.id, "succeeded")).state.value for job in jobs], refused

    assert virtually(main) == (["succeeded"] * 2, 1)
    assert "lease lost" not in caplog.text


def test_a_cancelled_worker_stops_its_handlers_before_it_gives_their_jobs_back() -> None:
    async def main(app: Headrace) -> tuple[str, bool]:
        over = False

        @app.task
        async def work() -> None:
            nonlocal over
            try:
                await work_for(1000)
            finally:
                over = True

        job = await work.aenqueue()
        worker = app.worker()
        run = asyncio.create_task(worker.run())
        await worker.started.wait()
        await await_until(lambda: worker.executor.running, 5, "the job to run")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return await state_of(app, job.id), over

    app = Headrace("memory://")
    assert asyncio.run(main(app)) == ("ready", True)


async def test_a_call_that_waits_for_a_thread_does_not_begin_once_it_is_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "headrace")
    app = Headrace("memory://", lease=3)
    free = threading.Event()
    ran = []

    @app.task(keep=KEEP)
    def work(number: int) -> None:
        ran.append(number)
        free.wait(30)

    async with working(app, threads=1, concurrency=5):
        first, second = [await work.aenqueue(number=number) for number in (1, 2)]
        await ended(app, second.id, "running")
        assert await app.ajobs.cancel(second.id) == "requested"
        await await_until(lambda: f"cancelling job {second.id}" in caplog.text, 10, "a heartbeat to tell the worker")
        free.set()
        await ended(app, first.id, "succeeded")
        await ended(app, second.id, "cancelled")
    assert ran == [1]


def test_a_job_that_never_ends_does_not_keep_a_worker_from_recycling() -> None:
    async def main(app: Headrace) -> tuple[Exit, str]:
        @app.task
        async def hang() -> None:
            await work_for(10**6)

        @app.task
        async def quick() -> None: ...

        hung = await hang.aenqueue()
        for _ in range(9):
            await quick.aenqueue()
        options = WorkerOptions(queues=("default",), max_jobs=3)
        worker = Worker(app, options, id="w", threaded_heart=False)
        return await worker.run(), await state_of(app, hung.id)

    why, state = virtually(main)
    assert why is Exit.RECYCLE
    assert state in {"ready", "scheduled"}


def test_a_suspect_does_not_stop_a_busy_worker() -> None:
    """A job of an hour, and one that has crashed twice: the rest goes on, and the suspect runs when it can be alone."""

    async def main(app: Headrace) -> list[str]:
        order: list[str] = []

        @app.task(name="long")
        async def long() -> None:
            await work_for(3600)
            order.append("long")

        @app.task(name="quick")
        async def quick() -> None:
            order.append("quick")

        @app.task(name="suspect", keep=KEEP)
        async def suspect() -> None:
            order.append("suspect")

        async with working_virtually(app) as worker:
            await long.aenqueue()
            await await_until(lambda: worker.executor.running == 1, 5, "the long job to run")
            job = await suspect.aenqueue()
            app.driver.model.jobs[job.id].trail = encode(Trail(crashes=2))  # type: ignore[attr-defined]
            for _ in range(5):
                await quick.aenqueue()
            await await_until(lambda: "suspect" in order, 7200, "the suspect to run")
        return order

    order = virtually(main)
    assert order.index("suspect") > order.index("long") > order.index("quick")
    assert order.count("quick") == 5


class Early(MemoryDriver):
    """Looks for dead workers the moment its clock has jumped, before anybody's next heartbeat."""

    def jump(self, clock: VirtualClock, worker: Worker, seconds: float) -> Rescued:
        known = worker.shared.store_time.now_us()
        clock.jump(seconds)
        return self.run(Rescue(("default",), not_after_us=known + JUMP_US))


def test_an_hours_jump_of_the_stores_clock_takes_no_job_from_the_living() -> None:
    """3b.4: whoever learns of the jump first, by a claim or by a heartbeat, rescues nobody."""
    clock = VirtualClock()
    app = Headrace("memory://", lease=3)
    app.driver = driver = Early(MemoryStore(now=clock))
    runs = 0

    @app.task(keep=KEEP)
    async def work() -> None:
        nonlocal runs
        runs += 1
        await work_for(100)

    async def main() -> None:
        options = WorkerOptions(queues=("default",), grace=0.0)
        idle = Worker(app, options, id="idle", threaded_heart=False)
        async with working_virtually(app) as busy:
            job = await work.aenqueue()
            await await_until(lambda: runs == 1, 5, "it to run")
            run = asyncio.create_task(idle.run())
            await await_until(lambda: idle.started.is_set() and idle.heart.clean_beats >= 2, 30, "clean beats")
            assert driver.jump(clock, busy, 3600).jobs == []
            info = await ended(app, job.id, "succeeded")
            assert info.counts["crashes"] == 0
            idle.stop()
            await run

    run_virtual(main(), clock)
    assert runs == 1


class Refusing(MemoryDriver):
    """Never takes the outcome of one job."""

    async def arun(self, operation: Any) -> Any:
        if isinstance(operation, Settle) and any(outcome.id == "refused" for outcome in operation.outcomes):
            raise ValueError("this id cannot be stored")
        return await super().arun(operation)


def test_an_outcome_that_the_store_refuses_holds_up_no_other() -> None:
    clock = VirtualClock()
    app = Headrace("memory://")
    app.driver = driver = Refusing(MemoryStore(now=clock))

    @app.task(name="work", keep=KEEP)
    async def work() -> None: ...

    async def main() -> None:
        async with working_virtually(app):
            body = b'{"v":1,"id":"refused","task":"work","args":{}}'
            driver.run(Enqueue((NewJob("refused", "default", "work", body),)))
            jobs = [await work.aenqueue() for _ in range(5)]
            for job in jobs:
                await ended(app, job.id, "succeeded")

    run_virtual(main(), clock)


class Misconfigured(MemoryDriver):
    """Refuses every operation, as a server with an eviction policy does."""

    def run(self, operation: Any) -> Any:
        raise StoreMisconfigured("set maxmemory-policy to noeviction")


async def test_a_store_that_would_lose_jobs_ends_the_worker_at_its_start() -> None:
    app = Headrace("memory://")
    app.driver = Misconfigured(MemoryStore())

    @app.task
    async def work() -> None: ...

    with pytest.raises(StoreMisconfigured, match="noeviction"):
        await app.worker().run()


async def test_a_pool_that_gets_no_thread_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPool(2, "t")
    real = threading.Thread.start

    def none(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    for _ in range(5):
        with pytest.raises(NoThreadError):
            pool.submit(lambda: 1)
    monkeypatch.setattr(threading.Thread, "start", real)
    assert await pool.submit(lambda: 7).done == (True, 7)
    pool.close()


async def test_a_timeout_counts_even_when_its_thread_outlives_the_worker() -> None:
    app = Headrace("memory://")
    free = threading.Event()

    @app.task(timeout=0.05, retry=2)
    def work() -> None:
        free.wait(30)

    job = await work.aenqueue()
    try:
        async with working(app, grace=0.0) as worker:
            await await_until(lambda: worker.executor.stuck, 10, "the thread to be late")
        info = await app.ajobs.get(job.id)
    finally:
        free.set()
    assert info is not None
    assert (info.counts["attempts"], info.counts["errors"], info.counts["releases"]) == (1, 1, 0)


async def test_a_burst_waits_for_a_late_thread() -> None:
    app = Headrace("memory://")
    free = threading.Event()

    @app.task(timeout=0.05, retry=2)
    def work() -> None:
        free.wait(30)

    job = await work.aenqueue()
    worker = app.worker(burst=True)
    run = asyncio.create_task(worker.run())
    await worker.started.wait()
    await await_until(lambda: worker.executor.stuck, 10, "the thread to be late")
    free.set()
    await run
    info = await app.ajobs.get(job.id)
    assert info is not None
    assert (info.state, info.counts["errors"]) == ("scheduled", 1)


class Late(Middleware):
    async def ended(self, job: Any, outcome: Any) -> None:  # type: ignore[override]
        raise NotImplementedError


@pytest.mark.parametrize("layer", [5, Middleware, Late()])
def test_middleware_that_cannot_be_called_is_refused_at_the_start(layer: Any) -> None:
    app = Headrace("memory://")
    app.middleware.append(layer)
    with pytest.raises(ConfigError, match=r"middleware\[0\]"):
        app.worker("default")
