"""The wake-up: one of all idle workers looks, the others wait for their turn; a hint that is lost costs a second."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.wakeup import MySQLWakeup
from headrace.testing.conformance.harness import LEASE, job
from tests.process.mysql_jobs import ask, open_driver
from tests.proxy import Proxy
from tests.servers import MariaServer
from tests.waiting import await_until

WATCHING = "select count(*) from information_schema.processlist where state = 'User lock'"


@pytest.fixture
async def driver(mysql_url: str, unique_name: str) -> AsyncIterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    await driver.arun(ops.Prepare())
    yield driver
    await driver.aclose()


@pytest.fixture
async def other(mysql_url: str, unique_name: str) -> AsyncIterator[MySQLDriver]:
    """A producer that knows nothing of the workers, as in another process."""
    driver = open_driver(mysql_url, unique_name)
    yield driver
    await driver.aclose()


async def rung(wakeup: MySQLWakeup, action: Callable[[], Any]) -> bool:
    """Whether a waiting worker is rung by it."""
    waiting = asyncio.create_task(wakeup.wait(10))
    await await_until(lambda: wakeup._line is not None)
    await action()
    return await waiting


async def test_a_producer_elsewhere_wakes_an_idle_worker(driver: MySQLDriver, other: MySQLDriver) -> None:
    wakeup = driver.wakeup("w", ("q",))
    try:
        assert await rung(wakeup, lambda: other.arun(ops.Enqueue((job("a"),))))
    finally:
        await wakeup.aclose()


async def test_a_job_that_becomes_due_wakes_an_idle_worker(driver: MySQLDriver, other: MySQLDriver) -> None:
    wakeup = driver.wakeup("w", ("q",))
    try:
        assert await rung(wakeup, lambda: other.arun(ops.Enqueue((job("a", delay_us=100_000),))))
    finally:
        await wakeup.aclose()


async def test_jobs_of_other_queues_wake_nobody(driver: MySQLDriver, other: MySQLDriver) -> None:
    wakeup = driver.wakeup("w", ("q",))
    try:
        await other.arun(ops.Enqueue((job("a", "q2"), job("b", delay_us=60_000_000))))
        assert await wakeup.wait(0.3) is False
    finally:
        await wakeup.aclose()


async def test_a_producer_of_this_process_rings_without_the_server(driver: MySQLDriver) -> None:
    wakeup = driver.wakeup("w", ("q2",))  # nothing to be seen there
    try:
        assert await rung(wakeup, lambda: driver.arun(ops.Enqueue((job("a"),))))
        assert await rung(wakeup, lambda: asyncio.to_thread(driver.run, ops.Enqueue((job("b"),))))
    finally:
        await wakeup.aclose()


async def test_of_many_idle_workers_one_looks(mysql_url: str, driver: MySQLDriver, other: MySQLDriver) -> None:
    """And each is rung in its turn as long as there is something to claim."""
    wakeups = [driver.wakeup(f"w{n}", ("q", "q2")) for n in range(4)]
    waits = [asyncio.create_task(wakeup.wait(30)) for wakeup in wakeups]
    try:
        await await_until(lambda: asyncio.to_thread(lambda: ask(mysql_url, WATCHING)[0][0] == 3))
        await other.arun(ops.Enqueue((job("a"),)))
        assert await asyncio.gather(*waits) == [True] * 4
    finally:
        for wakeup in wakeups:
            await wakeup.aclose()
    await await_until(lambda: asyncio.to_thread(lambda: ask(mysql_url, WATCHING)[0][0] == 0))


async def test_jobs_that_nobody_can_claim_cost_fewer_and_fewer_looks(driver: MySQLDriver, other: MySQLDriver) -> None:
    """Such as those that somebody's open transaction has locked."""
    wakeup = driver.wakeup("w", ("q",))
    await other.arun(ops.Enqueue((job("a"),)))
    try:
        pauses = []
        for _ in range(6):
            assert await wakeup.wait(10)
            pauses.append(wakeup._pause(wakeup._worked_at))
        assert pauses == sorted(pauses)
        assert pauses[-1] >= 8 * pauses[0]
        await driver.arun(ops.Claim("w", 1, ("q",), 1, LEASE))
        assert not await wakeup.wait(0.5)
        assert wakeup._pause(wakeup._worked_at) == pauses[0]
    finally:
        await wakeup.aclose()


async def test_an_outage_is_waited_out(
    mariadb_server_factory: Callable[[], MariaServer], unique_name: str, proxy_factory: Callable[[str], Proxy]
) -> None:
    """B026: it connects again by itself."""
    server = mariadb_server_factory().start()
    proxy = proxy_factory(server.url)
    driver, other = open_driver(proxy.url, unique_name), open_driver(server.url, unique_name)
    await other.arun(ops.Prepare())
    wakeup = driver.wakeup("w", ("q",))
    try:
        proxy.refuse()
        assert await wakeup.wait(0.3) is False
        proxy.refuse(False)
        assert await rung(wakeup, lambda: other.arun(ops.Enqueue((job("a"),))))
        proxy.cut()
        assert await wakeup.wait(10)
    finally:
        await wakeup.aclose()
        await driver.aclose()
        await other.aclose()


async def test_a_wait_that_is_cancelled_or_closed_leaves_nothing_behind(mysql_url: str, driver: MySQLDriver) -> None:
    wakeup = driver.wakeup("w", ("q",))
    waiting = asyncio.create_task(wakeup.wait(10))
    await await_until(lambda: wakeup._line is not None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await wakeup.aclose()
    await wakeup.aclose()
    assert await wakeup.wait(0.1) is False
    driver._bells.ring()
    assert driver._bells.listening == set()
