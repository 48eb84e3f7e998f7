"""Parked jobs and whoever looks after them; and workers that end when nothing is left."""

import asyncio

import pytest

from headrace import Headrace, RetryBudget, State
from headrace.core import operations as ops
from headrace.core.backoff import Fixed
from headrace.core.registers import Amend
from headrace.core.retry import Retry
from headrace.errors import StoreFull, StoreUnavailable
from headrace.worker.parked import Coming
from tests.circuits.conftest import EVERY
from tests.circuits.dependency import Broken
from tests.public.drivers import WatchedDriver
from tests.waiting import await_until
from tests.worker.working import state_of, working


async def park(app: Headrace, reason: str) -> None:
    """All jobs that are ready, as a worker would."""
    claimed = await app.driver.arun(ops.Claim("other", 1, ("default",), 100, 60_000_000))
    outcomes = [ops.Outcome(job.id, job.queue, job.token, State.PARKED, reason=reason) for job in claimed.jobs]
    assert all(await app.driver.arun(ops.Settle("other", tuple(outcomes))))


async def test_what_nobody_knows_strands_no_job(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)

    for number in range(3):
        await work.aenqueue(number)
    await park(app, "limit of old")
    async with working(app):
        await await_until(lambda: len(ran) == 3)
    assert "jobs are parked for reasons that nobody knows, and go on: limit of old" in caplog.text


async def test_what_another_gate_owns_is_its_own(app: Headrace) -> None:
    @app.task
    async def work() -> None: ...

    job = await work.aenqueue()
    await park(app, "weather rain")
    worker = app.worker()
    asked: list[str] = []
    let_go = asyncio.Event()

    async def weather(reasons: object) -> Coming:
        asked.extend(reasons)  # type: ignore[call-overload]
        return Coming({"weather rain": 1} if let_go.is_set() else {}, again_s=0.01)

    worker.parked._policies["weather"] = weather  # type: ignore[index]
    run = asyncio.create_task(worker.run())
    await await_until(lambda: len(asked) > 2)
    assert await state_of(app, job.id) == "parked"
    let_go.set()

    async def is_gone() -> bool:
        return await state_of(app, job.id) == "gone"

    await await_until(is_gone)
    worker.stop()
    await run
    assert set(asked) == {"weather rain"}


@EVERY
async def test_a_burst_worker_leaves_jobs_of_an_open_circuit_and_waits_for_those_of_a_closed_one(
    app: Headrace,
) -> None:
    smtp = app.circuit("smtp", refill=50)
    ran: list[int] = []

    @app.task(circuit=smtp)
    async def mail(number: int) -> None:
        ran.append(number)

    for number in range(12):
        await mail.aenqueue(number)
    await smtp.aforce_open("maintenance")
    await app.worker(burst=True).run()
    assert not ran
    assert (await smtp.alook()).parked == 12
    await smtp.areset("done")
    await app.worker(burst=True).run()
    assert sorted(ran) == list(range(12))


async def test_jobs_are_held_while_the_store_cannot_say_how_their_circuit_stands() -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp")
    ran: list[int] = []
    away, asked = True, 0

    def trouble(operation: object, when: str) -> None:
        nonlocal asked
        if away and isinstance(operation, Amend) and when == "before":
            asked += 1
            raise StoreUnavailable("gone")

    driver.trouble = trouble

    @app.task(circuit="smtp")
    async def mail() -> None:
        ran.append(1)

    async with working(app):
        job = await mail.aenqueue()
        await await_until(lambda: asked > 2)
        assert await state_of(app, job.id) == "running"
        assert not ran
        away = False
        await await_until(lambda: ran == [1])
    away = True
    async with working(app):
        job = await mail.aenqueue()

        async def is_claimed() -> bool:
            return await state_of(app, job.id) == "running"

        await await_until(is_claimed)
    assert await state_of(app, job.id) == "ready"
    assert ran == [1]


async def test_a_full_store_is_drained_whatever_the_circuit_would_say(caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp")
    ran: list[int] = []

    def trouble(operation: object, when: str) -> None:
        if isinstance(operation, Amend):
            raise StoreFull("no room")

    driver.trouble = trouble

    @app.task(circuit="smtp")
    async def mail() -> None:
        ran.append(1)

    async with working(app):
        await mail.aenqueue()
        await await_until(lambda: ran == [1])
    assert "circuits cannot be asked, and let in all jobs of a claim: no room" in caplog.text


async def test_retries_wait_for_their_budget_without_an_attempt(app: Headrace) -> None:
    app.circuit("smtp", window=1000, minimum=1000, retry_budget=RetryBudget(share=0, window=60, minimum=3))
    app.queue("default", retry_budget=RetryBudget(share=0.5, window=60, minimum=0))
    calls: list[int] = []

    @app.task(circuit="smtp", retry=Retry(max_attempts=2, backoff=Fixed(0.01)))
    async def mail(number: int) -> None:
        calls.append(number)
        raise Broken

    async with working(app):
        jobs = [await mail.aenqueue(number) for number in range(10)]

        async def are_settled() -> bool:
            infos = [await app.ajobs.get(job.id) for job in jobs]
            reasons = [(info.state.value, info.reason) for info in infos if info is not None]
            return reasons.count(("failed", "Broken")) == 3 and reasons.count(("scheduled", "retry budget")) == 7

        await await_until(are_settled, 20)
    assert len(calls) == 13
    infos = [await app.ajobs.get(job.id) for job in jobs]
    assert {info.counts["attempts"] for info in infos if info is not None and info.state is State.SCHEDULED} == {1}
