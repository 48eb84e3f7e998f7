"""Timeouts of coroutines and threads: the slot is free again, the attempt is counted, no second one runs beside it."""

import asyncio
import random
import threading
from collections import Counter
from typing import Any

import pytest

from headrace import Fixed, Headrace, Retry, current_job
from headrace.context import JobContext
from headrace.core.operations import Outcome
from headrace.middleware import Middleware
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, state_of, virtually, working, working_virtually


async def test_blocked_threads_give_their_slots_back() -> None:
    """B105: four slots, four handlers blocked for good; five quick jobs are done all the same, the four timed out."""
    app, release, done = Headrace("memory://"), threading.Event(), []

    @app.task(timeout=0.3, retry=1)
    def blocked() -> None:
        release.wait(60)

    @app.task
    def quick(number: int) -> None:
        done.append(number)

    async with working(app, concurrency=4) as worker:
        jobs = [await blocked.aenqueue() for _ in range(4)]
        await await_until(lambda: worker.executor.running == 4)
        for number in range(5):
            await quick.aenqueue(number=number)
        await await_until(lambda: len(done) == 5)
        assert [(await ended(app, job.id, "failed")).reason for job in jobs] == ["timeout"] * 4
        assert worker.executor.stuck == 4
        release.set()
        await await_until(lambda: worker.executor.stuck == 0)
        for number in range(5, 10):  # the pool is whole again
            await quick.aenqueue(number=number)
        await await_until(lambda: len(done) == 10)


async def test_no_attempt_starts_beside_one_that_cannot_be_stopped() -> None:
    """B044: the thread overruns; the retry waits for its end; what the first attempt returns at last is ignored."""
    app, release = Headrace("memory://"), threading.Event()
    alive, most, attempts = 0, 0, []

    @app.task(timeout=0.2, retry=Retry(max_attempts=2, backoff=Fixed(0)), keep=KEEP)
    def stubborn() -> str:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        attempts.append(current_job().attempt)
        if attempts == [1]:
            release.wait(60)
        alive -= 1
        return "a result that comes too late, or in time"

    @app.task(timeout=0.5, retry=1)
    async def while_away() -> None:
        await asyncio.Event().wait()

    async with working(app, concurrency=2) as worker:
        job = await stubborn.aenqueue()
        await await_until(lambda: worker.executor.stuck == 1)
        # its slot serves others meanwhile, for longer than the retry would have had to wait
        await ended(app, (await while_away.aenqueue()).id, "failed")
        assert (await state_of(app, job.id), attempts) == ("running", [1])
        release.set()
        info = await ended(app, job.id, "succeeded")
    assert (attempts, most) == ([1, 2], 1)
    assert (info.counts["attempts"], info.counts["errors"]) == (1, 1)
    assert [mishap.kind for mishap in info.history] == ["timeout"]


async def test_time_counts_from_when_a_thread_is_free() -> None:
    """B039: waiting for a thread is not running: a job with a short timeout behind a long one does not time out."""
    app, release = Headrace("memory://"), threading.Event()

    @app.task
    def long() -> None:
        release.wait(60)

    @app.task(timeout=0.2, retry=1, keep=KEEP)
    def short() -> None:
        assert release.is_set()

    @app.task(timeout=0.6, retry=1)
    async def while_away() -> None:
        await asyncio.Event().wait()

    async with working(app, concurrency=8, threads=1) as worker:
        await long.aenqueue()
        await await_until(lambda: worker.executor.running == 1)
        waiting = await short.aenqueue()
        await ended(app, (await while_away.aenqueue()).id, "failed")
        assert worker.executor.stuck == 0
        release.set()
        assert (await ended(app, waiting.id, "succeeded")).counts["attempts"] == 0


async def test_what_waits_for_a_thread_at_the_end_never_starts() -> None:
    """B003: it is handed back at once, and no thread picks it up afterwards."""
    app, release, started = Headrace("memory://"), threading.Event(), []

    @app.task
    def long() -> None:
        release.wait(60)

    @app.task
    def behind() -> None:
        started.append(current_job().id)

    async with working(app, concurrency=8, threads=1) as worker:
        await long.aenqueue()
        await await_until(lambda: worker.executor.running == 1)
        job = await behind.aenqueue()
        await await_until(lambda: worker.executor.running == 2)
    assert await state_of(app, job.id) == "ready"
    release.set()
    await await_until(lambda: not [t for t in threading.enumerate() if t.name.startswith("headrace-job")])
    assert started == []


def test_a_timeout_at_the_moment_of_the_end() -> None:
    """B106: 2,000 coroutines that take their timeout, give or take 5 ms: all end, and all slots are there."""

    async def main(app: Headrace) -> tuple[int, Counter[str]]:
        @app.task(timeout=0.05, retry=1, keep=KEEP)
        async def close(millis: int) -> None:
            await asyncio.get_running_loop().create_task(pause(millis / 1000))

        @app.task
        async def together() -> None:
            nonlocal beside
            beside += 1
            await full.wait()

        beside, full = 0, asyncio.Event()
        rng = random.Random(106)
        async with working_virtually(app, concurrency=50) as worker:
            jobs = await close.aenqueue_many([{"millis": rng.randint(45, 55)} for _ in range(2000)])
            await await_until(lambda: worker.executor.finished == 2000)
            await worker.settler.drained()
            states = Counter([await state_of(app, job.id) for job in jobs])
            await together.aenqueue_many([{} for _ in range(50)])
            await await_until(lambda: beside == 50)
            full.set()
        return worker.executor.running, states

    running, states = virtually(main)
    assert running == 0
    assert set(states) == {"succeeded", "failed"}
    assert sum(states.values()) == 2000


async def pause(seconds: float) -> None:
    """Let time pass, as a call to somewhere does."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


async def test_a_timeout_at_the_moment_of_the_end_of_a_thread() -> None:
    """B106: the same for threads, in real time: none is lost."""
    app, rng = Headrace("memory://"), random.Random(107)
    barrier = threading.Barrier(8)

    @app.task(timeout=0.03, retry=1, keep=KEEP)
    def close(micros: int) -> None:
        threading.Event().wait(micros / 1_000_000)

    @app.task(keep=KEEP)
    def together() -> None:
        barrier.wait(30)

    async with working(app, concurrency=8, max_stuck=100) as worker:
        jobs = await close.aenqueue_many([{"micros": rng.randint(25_000, 35_000)} for _ in range(300)])
        await await_until(lambda: worker.executor.finished == 300, 30)
        await await_until(lambda: worker.executor.stuck == 0)
        await worker.settler.drained()
        assert {await state_of(app, job.id) for job in jobs} <= {"succeeded", "failed"}
        for job in await together.aenqueue_many([{} for _ in range(8)]):
            await ended(app, job.id, "succeeded")
        assert worker.executor.running == 0


class Hook(Middleware):
    """Keeps what it is told, and then fails."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def ended(self, job: JobContext | None, outcome: Outcome) -> None:
        assert job is not None
        self.told.append((job.id, job.task, job.arguments, job.attempt, outcome.state.value, outcome.reason))
        raise RuntimeError("this hook is broken")


async def test_the_hook_learns_which_job_timed_out() -> None:
    """B111: id, name, arguments, attempt, once per attempt; an error of the hook's changes nothing."""
    app, hook = Headrace("memory://"), Hook()
    app.middleware.append(hook)

    @app.task(name="slow", timeout=0.1, retry=Retry(max_attempts=2, backoff=Fixed(0)))
    async def slow(order: int) -> None:
        await asyncio.Event().wait()

    async with working(app) as worker:
        id = (await slow.aenqueue(order=17)).id
        await ended(app, id, "failed")
        assert worker.executor.running == 0
    assert hook.told == [
        (id, "slow", {"order": 17}, 1, "scheduled", "timeout"),
        (id, "slow", {"order": 17}, 2, "failed", "timeout"),
    ]


async def test_a_coroutine_that_blocks_beyond_its_timeout_and_returns_has_succeeded_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was never in a place where it could be cancelled; without a word nobody would learn that it blocks."""
    app = Headrace("memory://")

    @app.task(timeout=0.1, retry=1, keep=KEEP)
    async def block() -> None:
        threading.Event().wait(0.3)

    async with working(app):
        job = await ended(app, (await block.aenqueue()).id, "succeeded")
    assert f"job {job.id} returned after its timeout: what it did stands" in caplog.messages
