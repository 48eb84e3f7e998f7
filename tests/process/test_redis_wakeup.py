"""The wake-up: it rings when jobs are waiting, keeps quiet otherwise, and outlives every connection."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from tests.process.redis_jobs import ask, claim, drain, enqueue, job, open_driver, repeat, settle, twice
from tests.proxy import Proxy
from tests.servers import RedisServer
from tests.waiting import await_until

Factory = Callable[[], RedisServer]
ProxyFactory = Callable[[str], Proxy]


@pytest.fixture
def proxy(redis_url: str, proxy_factory: ProxyFactory) -> Proxy:
    return proxy_factory(redis_url)


async def test_a_wakeup_rings_again_after_its_connections_were_killed(
    redis_server_factory: Factory, unique_name: str
) -> None:
    """B026: all connections killed five times in a row; nothing is raised, and the next job rings."""
    server = redis_server_factory().start()
    driver = open_driver(server.url, unique_name)
    wakeup = driver.wakeup("w", ["q"])
    for n in range(5):
        waiting = asyncio.create_task(wakeup.wait(20))
        await await_until(lambda: _blocked(driver), what="the blocking pop")
        await _kill_all(server)
        await await_until(lambda: _blocked(driver), what="a new blocking pop")
        await repeat(driver.arun, enqueue(job(str(n))))
        assert await waiting
        await asyncio.to_thread(drain, twice(driver))
    await wakeup.aclose()
    await driver.aclose()


async def _blocked(driver: RedisDriver) -> bool:
    return await asyncio.to_thread(_blocked_clients, driver.address.port) > 0


def _blocked_clients(port: int) -> int:
    line = next(one for one in ask(port, b"INFO clients\r\n").splitlines() if one.startswith("blocked_clients"))
    return int(line.partition(":")[2])


async def _kill_all(server: RedisServer) -> None:
    answer = await asyncio.to_thread(ask, server.port, b"CLIENT KILL TYPE normal SKIPME yes\r\n")
    assert answer.startswith(":")


async def test_an_idle_wakeup_keeps_its_one_connection(proxy: Proxy, unique_name: str) -> None:
    """B029: the block is longer than `socket_timeout`, yet silence is no failure."""
    driver = open_driver(proxy.url + "?socket_timeout=0.3", unique_name)
    wakeup = driver.wakeup("w", ["q"])
    assert not await wakeup.wait(2.5)
    assert proxy.accepted == 1
    assert not await wakeup.wait(0.01)  # a short wait leaves the pop going on, and what it takes is not lost
    await driver.arun(enqueue(job("a")))
    assert await wakeup.wait(5)
    await wakeup.aclose()
    await wakeup.aclose()
    assert not await wakeup.wait(1)
    await driver.aclose()


async def test_a_wakeup_waits_for_a_server_that_is_not_there(proxy: Proxy, unique_name: str) -> None:
    proxy.refuse()
    driver = open_driver(proxy.url, unique_name)
    wakeup = driver.wakeup("w", ["q"])
    assert not await wakeup.wait(0.2)
    proxy.refuse(on=False)
    waiting = asyncio.create_task(wakeup.wait(20))
    await repeat(driver.arun, enqueue(job("a")))
    assert await waiting
    await wakeup.aclose()
    await driver.aclose()


async def test_what_leaves_jobs_ready_rings(redis_url: str, unique_name: str) -> None:
    """Enqueues, claims that leave some, releases, replays, rescues, and a job due before the first."""
    driver = open_driver(redis_url, unique_name)
    wakeup = driver.wakeup("w", ["q"])

    async def rings(operation: Any) -> Any:
        while await wakeup.wait(0.02):
            pass
        answer = await driver.arun(operation)
        assert await wakeup.wait(5), operation
        return answer

    await rings(enqueue(job("a"), job("b")))
    one = (await rings(claim(1, 1))).jobs
    await rings(settle(one, State.READY))
    both = (await driver.arun(claim(2))).jobs
    await rings(settle(both[:1], State.SCHEDULED, delay_us=60_000_000))
    await rings(enqueue(job("sooner", delay_us=30_000_000)))
    await driver.arun(settle(both[1:], State.FAILED))
    await rings(ops.Replay((both[1].id,)))
    await driver.arun(claim(3))
    await rings(ops.Leave("w", ("q",)))
    while await wakeup.wait(0.02):
        pass
    await driver.arun(enqueue(job("later", delay_us=90_000_000)))
    assert not await wakeup.wait(0.05)
    await wakeup.aclose()
    await driver.aclose()


async def test_a_job_wakes_an_idle_worker_at_once(redis_url: str, unique_name: str) -> None:
    driver = open_driver(redis_url, unique_name)
    wakeup = driver.wakeup("w", ["q"])
    loop = asyncio.get_running_loop()
    times = []
    for n in range(15):
        waiting = asyncio.create_task(wakeup.wait(10))
        await await_until(lambda: _blocked(driver))
        start = loop.time()
        await driver.arun(enqueue(job(str(n))))
        assert await waiting
        times.append(loop.time() - start)
        await driver.arun(claim(n + 1))
    assert sorted(times)[7] < 0.05
    await wakeup.aclose()
    await driver.aclose()
