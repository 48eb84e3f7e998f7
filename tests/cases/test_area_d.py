"""Unique keys and cancels, end to end: a worker runs the jobs, workers are stopped and killed. Cases B049 to B058."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headrace import Cancel, Fail, Fixed, Headrace, Retry, State, current_job
from headrace.core import trail
from headrace.core.codec import Envelope, encode
from headrace.testing.clock import VirtualClock
from tests.cases.conftest import StartWorks
from tests.cases.running import Works, ended, put, remember, state, working
from tests.contract.stores import DATABASES, open_driver
from tests.waiting import await_until, wait_until

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

FRAGILE = """
@app.task(name="survivor", unique="survivor")
def survivor() -> None:
    say("survivor")
    if said("survivor") == 1:
        os.kill(os.getpid(), signal.SIGKILL)

@app.task(name="poison", unique="poison", retry=Retry(max_crashes=1))
def poison() -> None:
    say("poison")
    os.kill(os.getpid(), signal.SIGKILL)

@app.task(name="deaf", unique="deaf", timeout=60)
def deaf() -> None:
    say("deaf")
    threading.Event().wait(60)
"""


def _over(works: Works, id: str) -> State | None:
    """Wait for the end of a job in other processes; its last state, None when it is gone."""

    def last() -> list[State | None]:
        info = works.app.jobs.get(id)
        waits = info is not None and info.state in {State.SCHEDULED, State.READY, State.RUNNING}
        return [] if waits else [info.state if info else None]

    return wait_until(last, 30, f"the end of job {id}")[0]


def test_a_killed_worker_leaves_no_key_behind(works: StartWorks) -> None:
    """B049: the job runs again and ends, or is failed by the crash limit; either way its key can be had again."""
    shop = works(FRAGILE)
    survivor, poison = shop.app.tasks["survivor"], shop.app.tasks["poison"]
    first = shop.start()
    job = survivor.enqueue()
    assert first.wait(30) == -signal.SIGKILL
    assert survivor.enqueue().id == job.id  # held while nobody runs it
    second = shop.start()
    shop.wait_for("survivor", 2)
    assert _over(shop, job.id) is None
    again = survivor.enqueue()
    assert again.status == "new"
    assert _over(shop, again.id) is None
    job = poison.enqueue()
    assert second.wait(30) == -signal.SIGKILL
    assert poison.enqueue().duplicate
    shop.start()
    assert _over(shop, job.id) is State.FAILED
    info = shop.app.jobs.get(job.id)
    assert info is not None
    assert (info.reason, info.counts["crashes"], shop.said.count("poison")) == ("crashed", 1, 1)
    assert poison.enqueue().status == "new"


def test_a_cancel_outlives_the_worker_that_was_asked(works: StartWorks) -> None:
    """B058: asked to cancel, killed before it reacts; the job ends cancelled within a lease, and its key is free."""
    shop = works(FRAGILE)
    worker = shop.start()
    task = shop.app.tasks["deaf"]
    job = task.enqueue()
    shop.wait_for("deaf")
    assert shop.app.jobs.cancel(job.id) == "requested"
    worker.kill()
    shop.start()
    assert _over(shop, job.id) in {None, State.CANCELLED}
    assert shop.app.jobs.cancel(job.id) == "finished"
    assert shop.said == ["deaf"]
    assert task.enqueue().status == "new"


async def test_a_graceful_stop_gives_the_job_back_with_its_key(app: Headrace) -> None:
    """B050: the enqueue after the stop answers with the id of the job that was given back, which runs once more."""
    starts, go = [], asyncio.Event()

    @app.task(name="import", unique="import-{shop}")
    async def load(shop: str) -> None:
        starts.append(shop)
        await go.wait()

    async with working(app, grace=0.05):
        job = await load.aenqueue("a")
        await await_until(lambda: starts)
    assert await state(app, job.id) is State.READY
    duplicate = await load.aenqueue("a")
    assert (duplicate.id, duplicate.status) == (job.id, "duplicate")
    assert (await load.aenqueue("b")).status == "new"
    go.set()
    async with working(app):
        assert await ended(app, job.id) is None
        await await_until(lambda: sorted(starts) == ["a", "a", "b"])
        assert (await load.aenqueue("a")).status == "new"


# -- B051: every way to end frees the key

Make = Callable[[Headrace], Awaitable[str]]
ENDS: dict[str, tuple[State | None, str, Make]] = {}


def end(state: State | None, reason: str = "") -> Callable[[Make], Make]:
    """Register one way for a job with the key "k" to end, by what it is called, and what is left of it."""

    def register(make: Make) -> Make:
        ENDS[make.__name__] = (state, reason, make)
        return make

    return register


async def _enqueued(app: Headrace, function: Callable[..., Any], options: dict[str, Any], **using: Any) -> str:
    task = app.task(name="anything", unique="k", **options)(function)
    return (await task.using(**using).aenqueue()).id


def returns() -> None: ...


def raises() -> None:
    raise ValueError("no")


def fails() -> Fail:
    return Fail("never")


def gives_up() -> Cancel:
    return Cancel("not wanted any more")


async def waits() -> None:
    await asyncio.Event().wait()


@end(None)
async def success(app: Headrace) -> str:
    return await _enqueued(app, returns, {})


@end(State.FAILED, "ValueError")
async def an_error_without_retries(app: Headrace) -> str:
    return await _enqueued(app, raises, {"retry": Retry.none()})


@end(State.FAILED, "ValueError")
async def retries_used_up(app: Headrace) -> str:
    return await _enqueued(app, raises, {"retry": Retry(max_attempts=2, backoff=Fixed(0.01))})


@end(State.FAILED, "timeout")
async def a_timeout(app: Headrace) -> str:
    return await _enqueued(app, waits, {"retry": 1, "timeout": 0.05})


@end(State.FAILED, "failed")
async def the_verdict_fail(app: Headrace) -> str:
    return await _enqueued(app, fails, {})


@end(State.CANCELLED, "cancelled")
async def the_verdict_cancel(app: Headrace) -> str:
    return await _enqueued(app, gives_up, {})


@end(State.CANCELLED, "cancelled")
async def cancelled_while_waiting(app: Headrace) -> str:
    id = await _enqueued(app, returns, {}, run_after=3600)
    assert await app.ajobs.cancel(id) == "cancelled"
    return id


@end(State.CANCELLED, "cancelled")
async def cancelled_while_running(app: Headrace) -> str:
    async def waits_to_be_cancelled() -> None:
        assert await app.ajobs.cancel(current_job().id) == "requested"
        await asyncio.Event().wait()

    return await _enqueued(app, waits_to_be_cancelled, {})


@end(State.EXPIRED, "expired")
async def expired(app: Headrace) -> str:
    return await _enqueued(app, returns, {}, expires=LONG_AGO)


@end(State.FAILED, "deadline")
async def its_deadline_passed(app: Headrace) -> str:
    return await _enqueued(app, returns, {}, deadline=LONG_AGO)


@end(State.FAILED, "unreadable")
async def an_unreadable_message(app: Headrace) -> str:
    await _enqueued(app, returns, {}, unique="another")
    await put(app, "odd", b"\x93\x00", unique="k")
    return "odd"


@end(State.FAILED, "bad arguments")
async def arguments_that_do_not_fit(app: Headrace) -> str:
    await _enqueued(app, returns, {}, unique="another")
    await put(app, "odd", encode(Envelope(id="odd", task="anything", args={"a": 1})), unique="k")  # type: ignore[arg-type]
    return "odd"


@end(State.FAILED, "unknown task")
async def a_task_nobody_knows(app: Headrace) -> str:
    app.task(name="anything", unique="k")(returns)
    await put(app, "odd", encode(Envelope(id="odd", task="gone", args={})), unique="k")  # type: ignore[arg-type]
    await remember(app, trail.encode(trail.Trail(unknown_since_us=1, unknowns=9)))  # offered for long enough
    return "odd"


@end(State.FAILED, "crashed")
async def too_many_crashes(app: Headrace) -> str:
    id = await _enqueued(app, returns, {})
    await remember(app, trail.encode(trail.Trail(crashes=3, alone=True)))
    return id


@pytest.mark.parametrize("name", ENDS)
async def test_every_end_frees_the_key(name: str, app: Headrace) -> None:
    """B051"""
    last, reason, make = ENDS[name]
    id = await make(app)
    async with working(app):
        info = await ended(app, id)
        assert (info.state if info else None) is last
        assert info is None or info.reason == reason
        assert (await app.tasks["anything"].aenqueue()).status == "new"


async def test_removing_a_job_by_hand_frees_its_key(app: Headrace) -> None:
    """B054: cancelled one by one or a whole queue, forgotten, pruned."""

    @app.task(name="report", unique="k", retry=1)
    async def report() -> None:
        raise ValueError("no")

    async def is_free() -> bool:
        return (await report.aenqueue()).status == "new"

    async def clear() -> list[str]:
        return [await app.ajobs.cancel(job.id) for job in (await app.ajobs.list("ready")).jobs]

    assert await is_free()
    assert not await is_free()
    assert await clear() == ["cancelled"]
    assert await is_free()
    for remove in (app.ajobs.forget_failed(), app.ajobs.prune(most=0), app.ajobs.forget_failed(queue="default")):
        async with working(app):
            await await_until(lambda: _any_failed(app))
        (old,) = (await app.ajobs.list()).jobs
        assert (await app.ajobs.retry(old.id)).retried == 1  # it holds its key again
        assert not await is_free()
        async with working(app):
            await await_until(lambda: _any_failed(app))
        assert await remove == 1
        assert await is_free()


async def _any_failed(app: Headrace) -> bool:
    return bool((await app.ajobs.list()).jobs)


async def test_a_cancel_of_nothing_is_not_remembered(app: Headrace) -> None:
    """B055: it says that there is no such job, and a later one under that id runs."""
    ran = []

    @app.task(name="note")
    async def note() -> None:
        ran.append(True)

    assert await app.ajobs.cancel("x") == "absent"
    assert (await note.using(id="x").aenqueue()).status == "new"
    async with working(app):
        assert await ended(app, "x") is None
    assert ran == [True]
    assert await app.ajobs.cancel("x") == "finished"


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", *DATABASES])
async def test_an_id_used_again_inherits_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    """B056: the same day it is refused in so many words; the day after it is a fresh job."""
    clock, seen = VirtualClock(), []
    app = Headrace("memory://")
    app.driver = open_driver(kind, clock, request)

    @app.task(name="daily", keep=3600, retry=Retry(max_attempts=2, backoff=Fixed(0)))
    async def daily(day: int) -> None:
        seen.append((day, current_job().attempt, current_job().enqueued_us))
        if len(seen) == 1:
            raise ValueError("the first attempt")

    async with working(app):
        assert (await daily.using(id="daily").aenqueue(1)).status == "new"
        first = await ended(app, "daily")
        assert first is not None
        assert (first.state, first.counts["attempts"], len(first.history)) == (State.SUCCEEDED, 1, 1)
        assert (await daily.using(id="daily").aenqueue(2)).status == "exists"
    clock.advance(25 * 3600)
    await app.ajobs.prune(older_than="30d")
    started_us = clock()
    assert (await daily.using(id="daily").aenqueue(2)).status == "new"
    fresh = await app.ajobs.get("daily")
    assert fresh is not None
    assert (fresh.state, fresh.started, fresh.finished, fresh.history) == (State.READY, None, None, ())
    assert not any(fresh.counts.values())
    async with working(app):
        second = await ended(app, "daily")
    assert second is not None
    assert (second.state, second.history, second.args) == (State.SUCCEEDED, (), {"day": 2})
    assert seen[1:] == [(1, 2, VirtualClock()()), (2, 1, started_us)]
    await app.aclose()


def test_threads_that_enqueue_one_key_make_one_job(works: StartWorks) -> None:
    """B057, as far as there is a key but no limit yet: it never stays taken, whoever asks while it becomes free."""
    shop = works('@app.task(name="quick", unique="k")\nasync def quick() -> None: ...')
    task = shop.app.tasks["quick"]
    shop.start()
    new: list[str] = []

    def produce() -> None:
        for _ in range(100):
            job = task.enqueue()
            if not job.duplicate:
                new.append(job.id)

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(new) == len(set(new)) >= 1
    wait_until(lambda: not task.enqueue().duplicate, 10, "the key")
    wait_until(lambda: not any(view.ready + view.running for view in shop.app.jobs.queues()), 10, "an empty queue")
