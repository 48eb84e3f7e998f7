"""News of failures that the store has not judged yet: the next call waits for its answer, and nobody else does."""

import asyncio
import logging
from typing import Any, TypeVar

import pytest

from headrace import Headrace
from headrace.core.circuit import ReportCalls, Result
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.operations import Operation
from headrace.core.registers import Amend
from headrace.core.trail import Trail, encode
from headrace.errors import StoreFull
from headrace.worker import Worker, WorkerOptions
from headrace.worker.unheard import Unheard
from tests.public.drivers import WatchedDriver
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, state_of, virtually, working, working_virtually

R = TypeVar("R")


def is_report(operation: Operation[Any]) -> bool:
    return isinstance(operation, Amend) and any(isinstance(change, ReportCalls) for change in operation.changes)


class SlowToJudge(WatchedDriver):
    """Reports to circuits wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.judging = asyncio.Event()
        self.asked = 0

    async def arun(self, operation: Operation[R]) -> R:
        if is_report(operation):
            self.asked += 1
            await self.judging.wait()
        return await super().arun(operation)


async def test_no_call_begins_while_its_circuit_may_be_about_to_open_but_others_do() -> None:
    app = Headrace("memory://")
    app.driver = driver = SlowToJudge()
    smtp = app.circuit("smtp", window=10, minimum=10)
    calls: list[int] = []
    others: list[int] = []

    @app.task(circuit=smtp, retry=1)
    async def mail(number: int) -> None:
        calls.append(number)
        raise ConnectionError

    @app.task
    async def other(number: int) -> None:
        others.append(number)

    async with working(app, concurrency=2) as worker:
        await mail.aenqueue(0)
        await await_until(lambda: driver.asked)
        await mail.aenqueue(1)
        await await_until(lambda: worker.executor.waiting == 1)
        await other.aenqueue_many({"number": number} for number in range(5))
        await await_until(lambda: len(others) == 5)
        assert calls == [0]
        driver.judging.set()
        await await_until(lambda: len(calls) == 2)
        assert worker.executor.waiting == 0


async def test_what_an_operator_keeps_closed_holds_nobody_up() -> None:
    app = Headrace("memory://")
    app.driver = driver = SlowToJudge()
    smtp = app.circuit("smtp", window=10, minimum=10)
    calls: list[int] = []

    @app.task(circuit=smtp, retry=1)
    async def mail(number: int) -> None:
        calls.append(number)
        raise ConnectionError

    await smtp.aforce_close("maintenance is over")
    await mail.aenqueue_many({"number": number} for number in range(3))
    async with working(app, concurrency=1):
        await await_until(lambda: len(calls) == 3)
        assert driver.asked == 1
        driver.judging.set()


async def test_what_waits_for_an_answer_is_given_back_where_the_worker_ends() -> None:
    app = Headrace("memory://")
    app.driver = driver = SlowToJudge()
    app.circuit("smtp", window=10, minimum=10)

    @app.task(circuit="smtp", retry=1)
    async def mail(number: int) -> None:
        raise ConnectionError

    async with working(app, concurrency=2) as worker:
        await mail.aenqueue(0)
        await await_until(lambda: driver.asked)
        job = await mail.aenqueue(1)
        await await_until(lambda: worker.executor.waiting == 1)
        worker.stop()
        await await_until(lambda: worker.executor.waiting == 0)
        driver.judging.set()
    assert await state_of(app, job.id) == "ready"


def test_a_burst_is_not_over_while_a_job_waits_for_an_answer() -> None:
    async def main(app: Headrace) -> list[int]:
        driver = SlowToJudge()
        driver.inner, app.driver = app.driver, driver
        app.circuit("smtp", window=10, minimum=10)
        calls: list[int] = []

        @app.task(circuit="smtp", retry=1)
        async def mail(number: int) -> None:
            calls.append(number)
            raise ConnectionError

        await mail.aenqueue_many({"number": number} for number in range(3))
        worker = Worker(
            app, WorkerOptions(queues=("default",), concurrency=2, burst=True), id="w", threaded_heart=False
        )
        asyncio.get_running_loop().call_later(10, driver.judging.set)
        await worker.run()
        return calls

    assert virtually(main) == [0, 1, 2]


def test_a_suspect_waits_for_them_too_and_then_runs_alone() -> None:
    async def main(app: Headrace) -> float:
        driver = SlowToJudge()
        driver.inner, app.driver = app.driver, driver
        app.circuit("smtp", window=10, minimum=10)
        loop = asyncio.get_running_loop()

        @app.task(circuit="smtp", retry=1)
        async def mail(number: int) -> None:
            raise ConnectionError

        @app.task(keep=KEEP)
        async def other() -> None: ...

        async with working_virtually(app, concurrency=2) as worker:
            await mail.aenqueue(0)
            await await_until(lambda: driver.asked)
            await mail.aenqueue(1)
            await await_until(lambda: worker.executor.waiting == 1)
            suspect = await other.aenqueue()
            driver.inner.model.jobs[suspect.id].trail = encode(Trail(crashes=2))
            asked = loop.time()
            loop.call_later(2, driver.judging.set)
            await ended(app, suspect.id, "succeeded")
            return round(loop.time() - asked)

    assert virtually(main) == 2


async def test_an_answer_that_cannot_be_logged_is_an_answer() -> None:
    app = Headrace("memory://")
    smtp = app.circuit("smtp", window=2, open_for=60)
    calls: list[int] = []

    @app.task(circuit=smtp, retry=1)
    async def mail(number: int) -> None:
        calls.append(number)
        raise ConnectionError

    def refuse(record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            raise ValueError("a filter of the application's")
        return True

    logger = logging.getLogger("headrace.circuits")
    logger.addFilter(refuse)
    try:
        async with working(app, concurrency=1):
            await mail.aenqueue_many({"number": number} for number in range(2))
            await await_until(lambda: len(calls) == 2)
            await await_until(lambda: smtp_is_open(app))
            await smtp.areset("done")
            await mail.aenqueue(2)
            await await_until(lambda: len(calls) == 3)
    finally:
        logger.removeFilter(refuse)


async def smtp_is_open(app: Headrace) -> bool:
    (info,) = await app.circuits.alook()
    return info.state == "open"


async def test_a_store_that_takes_no_reports_holds_nobody_up() -> None:
    """One that is full must be drained."""
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp", window=10, minimum=10)
    calls: list[int] = []

    def refuse(operation: Operation[Any], when: str) -> None:
        if is_report(operation) and len(calls) < 5:
            raise StoreFull("there is no room")

    driver.trouble = refuse

    @app.task(circuit="smtp", retry=1)
    async def mail(number: int) -> None:
        calls.append(number)
        raise ConnectionError

    await mail.aenqueue_many({"number": number} for number in range(5))
    async with working(app, concurrency=1):
        await await_until(lambda: len(calls) == 5)
    assert calls == [0, 1, 2, 3, 4]


NAMES: dict[str, Result] = {"o": "ok", "f": "failed", "s": "slow", "x": "slow_failed", "n": "none"}


@pytest.mark.parametrize("results", ["f", "fo", "of", "ofoff", "xo", "fn", "ss", "sx", "x", "o" * 90 + "f" * 5])
def test_it_alarms_where_these_calls_alone_would_open_the_circuit(results: str) -> None:
    unheard = noted(results)
    assert unheard.alarms("smtp", CircuitPolicy(failure_rate=0.5, slow_rate=1.0))
    assert not unheard.alarms("other", CircuitPolicy())


@pytest.mark.parametrize(
    "results", ["", "o", "n", "foo", "ofofo", "so", "sos", "xoo", "o" * 90 + "f" * 4, "f" * 9 + "o" * 9]
)
def test_it_is_quiet_where_they_would_not(results: str) -> None:
    assert not noted(results).alarms("smtp", CircuitPolicy(failure_rate=0.5, slow_rate=1.0))


def noted(results: str) -> Unheard:
    unheard = Unheard()
    for letter in results:
        unheard.note("smtp", NAMES[letter])
    return unheard


def test_what_is_on_its_way_counts_until_it_is_answered() -> None:
    policy, unheard = CircuitPolicy(failure_rate=0.5), Unheard()
    unheard.note("smtp", "failed")
    unheard.send()
    assert unheard.alarms("smtp", policy)
    unheard.note("smtp", "ok")
    assert unheard.alarms("smtp", policy)
    unheard.note("smtp", "ok")
    assert not unheard.alarms("smtp", policy)
    unheard.note("smtp", "failed")
    unheard.failed()
    assert not unheard.alarms("smtp", policy)
    unheard.answered()
    assert not unheard.alarms("smtp", policy)  # of three, one has failed
    unheard.note("smtp", "failed")
    assert unheard.alarms("smtp", policy)
