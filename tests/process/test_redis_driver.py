"""Connections whose opening nobody waits for, that are refused, or that fail in a way nobody foresaw."""

import asyncio
import gc
import select
import socket
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.drivers.redis import RedisDriver
from headrace.drivers.redis.exchange import error_of
from headrace.drivers.redis.pipe import Pipe
from headrace.errors import StoreMisconfigured, StoreUnavailable
from headrace.stores.redis import RedisStore
from tests.process.redis_jobs import enqueue, job, open_driver, twice
from tests.proxy import Proxy
from tests.servers import RedisServer
from tests.waiting import await_until, wait_until

Factory = Callable[[], RedisServer]
ProxyFactory = Callable[[str], Proxy]


@pytest.fixture
def proxy(redis_url: str, proxy_factory: ProxyFactory) -> Proxy:
    return proxy_factory(redis_url)


async def _abandoned(driver: RedisDriver, proxy: Proxy, *, answered: bool) -> None:
    """Three callers wait for one attempt to connect, and all are cancelled before the server has said a word."""
    shared = _shared(driver)
    proxy.latency = 0.02
    waiting = [asyncio.create_task(shared.get()) for _ in range(3)]
    await await_until(lambda: proxy.accepted == 1)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert all(task.cancelled() for task in waiting)
    if not answered:
        proxy.cut()
    await await_until(shared._attempt.done)
    proxy.latency = 0


def _shared(driver: RedisDriver) -> Any:
    from headrace.drivers.redis import _SharedPipe

    return driver._pipes.setdefault(asyncio.get_running_loop(), _SharedPipe(driver._new_pipe))


async def test_a_pipe_that_nobody_waited_for_is_used_and_closed(proxy: Proxy, unique_name: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    await _abandoned(driver, proxy, answered=True)
    assert (await driver.arun(enqueue(job("a"))))[0].status == "new"
    assert proxy.accepted == 1
    await _abandoned_once_more(driver, proxy)
    await driver.aclose()
    await await_until(lambda: not proxy._links, what="the connection to be closed")


async def _abandoned_once_more(driver: RedisDriver, proxy: Proxy) -> None:
    """A new attempt after a loss, its only caller gone: the driver closes what it brought."""
    shared = _shared(driver)
    proxy.cut()
    await await_until(lambda: not shared.pipe.open)
    waiting = asyncio.create_task(shared.get())
    await await_until(lambda: proxy.accepted == 2)
    waiting.cancel()
    await asyncio.wait({waiting})
    await await_until(lambda: shared._attempt.done() and shared.pipe.open)


async def test_an_attempt_that_fails_with_nobody_waiting_complains_to_nobody(proxy: Proxy, unique_name: str) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    driver = open_driver(proxy.url, unique_name)
    await _abandoned(driver, proxy, answered=False)
    await await_until(lambda: not proxy._links)
    del driver._pipes[asyncio.get_running_loop()]
    gc.collect()
    assert complaints == []
    assert (await driver.arun(enqueue(job("a"))))[0].status == "new"
    await driver.aclose()


async def test_an_unforeseen_error_of_a_wakeup_is_raised_once(
    redis_url: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_driver(redis_url, unique_name)
    wakeup = driver.wakeup("w", ["q"])

    async def broken(*_: Any) -> Pipe:
        raise ValueError("nobody foresaw this")

    with monkeypatch.context() as patch:
        patch.setattr(Pipe, "connect", broken)
        with pytest.raises(ValueError, match="nobody foresaw this"):
            await wakeup.wait(5)
    await driver.arun(enqueue(job("a")))
    assert await wakeup.wait(5)
    await wakeup.aclose()
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_too_many_clients_are_a_server_that_is_not_there(
    colour: str, redis_server_factory: Factory, unique_name: str
) -> None:
    """An enqueue may be sent again then, as after any lost connection."""
    assert isinstance(error_of("ERR max number of clients reached"), StoreUnavailable)
    server = redis_server_factory().start(maxclients=10)
    others = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(10)]
    for other in others:
        other.sendall(b"PING\r\n")
        assert await asyncio.to_thread(other.recv, 64) == b"+PONG\r\n"
    driver = open_driver(server.url, unique_name)
    run = driver.arun if colour == "async" else lambda operation: asyncio.to_thread(driver.run, operation)
    with pytest.raises(StoreUnavailable):
        await run(enqueue(job("a")))
    for other in others:
        other.close()

    async def stored() -> bool:
        try:
            return bool((await run(enqueue(job("a"))))[0].status)
        except StoreUnavailable:
            return False

    await await_until(stored, what="room for a client")
    await driver.aclose()


def test_without_poll_idle_lines_are_looked_at_all_the_same(
    proxy: Proxy, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has none."""
    monkeypatch.delattr(select, "poll")
    driver = open_driver(proxy.url, unique_name)
    driver.run(enqueue(job("a")))
    (line,) = driver._lines._idle
    assert line.usable()
    proxy.cut()
    wait_until(lambda: not line.usable())
    assert twice(driver)(enqueue(job("b")))[0].status == "new"
    driver.close()


def test_a_driver_changes_nothing_in_its_store(redis_server_factory: Factory, unique_name: str) -> None:
    """Whether jobs may be thrown away is the store's own setting, made with it."""
    server = redis_server_factory().start(maxmemory_policy="allkeys-lru")
    store = RedisStore(unique_name)
    with pytest.raises(StoreMisconfigured, match="allkeys-lru"):
        RedisDriver(server.url + "?allow_eviction=1", store).run(ops.Prepare())
    accepting = RedisDriver(server.url, RedisStore(unique_name, allow_eviction=True))
    assert accepting.run(enqueue(job("a")))[0].status == "new"
    accepting.close()
