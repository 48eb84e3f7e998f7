"""CancelledError comes from four sides, and each of them is something else."""

import asyncio
import threading

from headrace import Headrace, current_job
from headrace.core.operations import Cancel
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, state_of, virtually, working, working_virtually


def test_four_cancellations_are_four_outcomes() -> None:
    """B107: raised by the job itself, by the user, by a timeout, by the shutdown; the worker lives on."""

    async def main(app: Headrace) -> list[tuple[str, str, dict[str, int]]]:
        @app.task(retry=1)
        async def itself() -> None:
            raise asyncio.CancelledError

        @app.task(retry=1)
        async def endless() -> None:
            await asyncio.Event().wait()

        @app.task(retry=1, timeout=5)
        async def limited() -> None:
            await asyncio.Event().wait()

        @app.task
        async def healthy() -> None: ...

        async with working_virtually(app) as worker:
            ids = [(await task.aenqueue()).id for task in (itself, endless, limited, endless)]
            await await_until(lambda: worker.executor.running == 3)
            assert await app.ajobs.cancel(ids[1]) == "requested"
            await ended(app, ids[0], "failed")
            await ended(app, ids[1], "cancelled")
            await ended(app, ids[2], "failed")
            alive = await healthy.aenqueue()
            await await_until(lambda: worker.executor.finished == 4)
            assert await state_of(app, alive.id) == "gone"
        jobs = [await app.ajobs.get(id) for id in ids]
        return [(job.state.value, job.reason, job.counts) for job in jobs if job is not None]

    outcomes = virtually(main)
    assert [outcome[:2] for outcome in outcomes] == [
        ("failed", "CancelledError"),
        ("cancelled", "cancelled"),
        ("failed", "timeout"),
        ("ready", "released"),
    ]
    assert [counts["attempts"] for *_, counts in outcomes] == [1, 0, 1, 0]
    assert outcomes[3][2]["releases"] == 1


def test_a_cancellation_before_the_first_step_is_not_lost() -> None:
    """B108: the request arrives between the dispatch and the first step of the job's task: it ends all the same."""

    async def main(app: Headrace) -> tuple[str, int, list[str]]:
        started: list[str] = []

        @app.task(priority=1)
        async def first(other: str) -> None:
            app.driver.run(Cancel(other, keep_us=10**9))
            await worker.heart.beat_until_answered()  # in memory this does not give the others their turn

        @app.task
        async def second() -> None:
            started.append(current_job().id)

        await second.using(id="2").aenqueue()
        await first.using(id="1").aenqueue(other="2")
        async with working_virtually(app) as worker:
            await await_until(lambda: worker.executor.finished == 2)
            await worker.settler.drained()
            return await state_of(app, "2"), worker.executor.running, started

    assert virtually(main) == ("cancelled", 0, [])


async def test_a_thread_that_ignores_a_request_still_has_its_timeout() -> None:
    """B110: a thread cannot be cancelled, only told; when its time is over, its slot serves others."""
    app, release, told = Headrace("memory://", lease=1, heartbeat=0.1), threading.Event(), []

    @app.task(timeout=1.0, keep=KEEP)
    def stubborn() -> None:
        while not release.wait(0.01):
            told.append(current_job().cancel_requested)

    @app.task(keep=KEEP)
    def other() -> None: ...

    async with working(app, concurrency=1) as worker:
        job = await stubborn.aenqueue()
        await await_until(lambda: bool(told))
        await app.ajobs.cancel(job.id)
        await await_until(lambda: told[-1], what="the request to be seen in the thread")
        await await_until(lambda: worker.executor.stuck == 1)
        await ended(app, (await other.aenqueue()).id, "succeeded")
        assert await state_of(app, job.id) == "running"
        release.set()
        await ended(app, job.id, "cancelled")
        assert await app.ajobs.cancel(job.id) == "finished"
        assert worker.executor.running == 0


async def test_a_coroutine_that_swallows_a_request_is_asked_again_at_its_timeout() -> None:
    """B108: the first cancellation is lost; the timeout is not."""
    app, swallowed = Headrace("memory://", lease=1, heartbeat=0.1), []

    @app.task(timeout=1.0, keep=KEEP)
    async def hard_of_hearing() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.append(1)
        await asyncio.Event().wait()

    async with working(app) as worker:
        job = await hard_of_hearing.aenqueue()
        await await_until(lambda: worker.executor.running == 1)
        await app.ajobs.cancel(job.id)
        await await_until(lambda: swallowed)
        await ended(app, job.id, "cancelled")
        assert worker.executor.running == 0
