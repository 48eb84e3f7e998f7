"""Connections that are cut, late, half-open, shared, forked; a server that goes away and comes back."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.drivers.redis import address as addresses
from headrace.drivers.redis.address import parse
from headrace.drivers.redis.exchange import sha1
from headrace.errors import ConfigError, StoreMisconfigured, StoreUnavailable
from headrace.stores.redis import RedisStore
from headrace.stores.redis.keys import scripts
from tests.process.redis_jobs import ask, claim, drain, enqueue, job, open_driver, repeat, settle, twice
from tests.proxy import Proxy
from tests.servers import RedisServer
from tests.waiting import await_until, wait_until

Factory = Callable[[], RedisServer]
ProxyFactory = Callable[[str], Proxy]


@pytest.fixture
def proxy(redis_url: str, proxy_factory: ProxyFactory) -> Proxy:
    return proxy_factory(redis_url)


async def _colour(driver: RedisDriver, colour: str) -> Callable[[Any], Awaitable[Any]]:
    """The driver's `run` or `arun`, awaited alike; `run` goes to a thread so that the proxy's faults do not stop us."""
    if colour == "async":
        return driver.arun

    async def run(operation: Any) -> Any:
        return await asyncio.to_thread(driver.run, operation)

    return run


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_lost_reply_is_reported_and_the_repetition_changes_nothing(
    colour: str, proxy: Proxy, unique_name: str
) -> None:
    """Every operation that writes, its answer dropped after it was carried out, then repeated."""
    driver = open_driver(proxy.url, unique_name)
    run = await _colour(driver, colour)

    async def lost(operation: Any, script: str) -> Any:
        """The answer of the repetition; the first one must be reported as lost and must not be sent again by itself."""
        before = proxy.dropped
        proxy.drop_reply(sha1(scripts()[script]).encode())
        with pytest.raises(StoreUnavailable):
            await run(operation)
        assert proxy.dropped == before + 1
        return await run(operation)

    await run(ops.Prepare())
    assert [one.status for one in await lost(enqueue(job("a")), "enqueue_one")] == ["exists"]
    assert [one.status for one in await lost(enqueue(job("b"), job("c"), job("d", unique="k")), "enqueue")] == [
        "exists"
    ] * 3
    claimed = await lost(claim(1, 3), "claim")
    assert [each.id for each in claimed.jobs] == ["a", "b", "c"]
    assert await lost(settle(claimed.jobs[:1]), "settle") == [False]  # "stale" after a repetition means: unknown
    assert await lost(settle(claimed.jobs[1:2], State.FAILED), "settle") == [False]
    assert (await lost(ops.Replay(("b",)), "replay")).skipped == {"b": "is ready"}
    held = (ops.Held("c", "q", claimed.jobs[2].token),)
    assert (await lost(ops.Beat("w", ("q",), 10**7, held, 2), "beat")).lost == []
    assert await lost(ops.Cancel("d"), "cancel") == "finished"
    assert await lost(ops.Leave("w", ("q",)), "give_back") == 0
    assert (await run(ops.Get("c"))).state == State.READY
    assert sorted(await asyncio.to_thread(drain, driver.run, worker="x")) == ["b", "c"]
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_cut_connection_is_opened_again(colour: str, proxy: Proxy, unique_name: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    run = await _colour(driver, colour)
    for n in range(5):
        await repeat(run, enqueue(job(str(n))))
        proxy.cut()
    assert len(await asyncio.to_thread(drain, twice(driver))) == 5
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_silence_is_not_waited_for(colour: str, proxy: Proxy, unique_name: str) -> None:
    """Half-open: nothing is closed, nothing is answered."""
    driver = open_driver(proxy.url + "?socket_timeout=0.2", unique_name)
    run = await _colour(driver, colour)
    await run(enqueue(job("a")))
    proxy.swallow()
    with pytest.raises(StoreUnavailable, match=r"no answer from .* within 0\.2 s"):
        await run(enqueue(job("b")))
    proxy.swallow(on=False)
    assert (await repeat(run, enqueue(job("b"))))[0].status == "new"
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_nobody_there_is_said_without_the_password(colour: str, proxy: Proxy, unique_name: str) -> None:
    proxy.refuse()
    driver = open_driver(f"redis://me:secret@127.0.0.1:{proxy.port}/0", unique_name)
    run = await _colour(driver, colour)
    with pytest.raises(StoreUnavailable, match="no connection to redis://me:"):
        await run(ops.Prepare())
    assert "secret" not in driver.describe()
    await driver.aclose()


async def test_a_cancelled_caller_never_shifts_the_answers(proxy: Proxy, unique_name: str) -> None:
    """Answers go to whom they belong, whoever has gone meanwhile; and what was asked is carried out all the same."""
    driver = open_driver(proxy.url, unique_name)
    await driver.arun(enqueue(*[job(str(n)) for n in range(40)]))
    proxy.latency = 0.02
    tasks = [asyncio.create_task(driver.arun(ops.Get(str(n)))) for n in range(40)]
    late = asyncio.create_task(driver.arun(enqueue(job("late"))))
    await asyncio.sleep(0)
    for task in (*tasks[::3], late):
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in answers] == [n % 3 == 0 for n in range(40)]
    assert all(one.id == str(n) for n, one in enumerate(answers) if n % 3)  # type: ignore[union-attr]
    await await_until(lambda: _exists(driver, "late"))
    await driver.aclose()


async def _exists(driver: RedisDriver, id: str) -> bool:
    return await driver.arun(ops.Get(id)) is not None


async def test_an_error_reaches_everybody_who_waits(proxy: Proxy, unique_name: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    await driver.arun(ops.Prepare())
    proxy.swallow()
    tasks = [asyncio.create_task(driver.arun(enqueue(job(str(n))))) for n in range(20)]
    await await_until(lambda: len(_pipe(driver)._waiting) == 20)
    proxy.cut()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, StoreUnavailable) for one in answers)
    proxy.swallow(on=False)
    assert len(await asyncio.gather(*[driver.arun(enqueue(job(str(n)))) for n in range(20)])) == 20
    assert proxy.accepted == 2  # the twenty shared one attempt
    await driver.aclose()


def _pipe(driver: RedisDriver) -> Any:
    shared = driver._pipes[asyncio.get_running_loop()]
    assert shared.pipe is not None
    return shared.pipe


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_every_accepted_job_outlives_a_restart(
    colour: str, redis_server_factory: Factory, unique_name: str
) -> None:
    """B032: a producer goes on while the server is killed and started: accepted = stored, the others were told."""
    server = redis_server_factory().start(appendonly=True)
    driver = open_driver(server.url, unique_name)
    run = await _colour(driver, colour)
    accepted: set[str] = set()
    refused: set[str] = set()

    async def produce() -> None:
        n = 0
        while len(accepted) < 600 or not refused:
            n += 1
            try:
                await run(enqueue(job(str(n))))
            except StoreUnavailable:
                refused.add(str(n))
                await asyncio.sleep(0)
            else:
                accepted.add(str(n))

    producer = asyncio.create_task(produce())
    await await_until(lambda: len(accepted) >= 200)
    server.kill()
    await await_until(lambda: refused)
    await asyncio.to_thread(server.restart)
    await producer
    stored = set(await asyncio.to_thread(drain, driver.run))
    assert accepted <= stored  # a refused one may have been stored: its reply was lost
    assert stored <= accepted | refused
    await driver.aclose()


def test_a_delayed_job_outlives_a_restart(redis_server_factory: Factory, unique_name: str) -> None:
    """B030: neither early nor forgotten."""
    server = redis_server_factory().start(appendonly=True)
    driver = open_driver(server.url, unique_name)
    driver.run(enqueue(job("a", delay_us=1_500_000)))
    server.kill()
    server.restart()
    run = twice(driver)
    numbers = iter(range(1, 10_000))
    assert run(claim(next(numbers))).next_due_us is not None
    claimed = wait_until(lambda: (answer := run(claim(next(numbers)))).jobs and answer)
    assert claimed.now_us - claimed.jobs[0].created_us >= 1_500_000
    driver.close()


def test_a_fork_opens_connections_of_its_own(redis_url: str, unique_name: str) -> None:
    """B121: while other threads of the parent are using theirs."""
    driver = open_driver(redis_url, unique_name)
    over = threading.Event()
    answers: list[str] = []

    def busy() -> None:
        while not over.is_set():
            answers.append(driver.run(enqueue(job(f"parent {len(answers)}")))[0].status)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        wait_until(lambda: len(answers) > 20)
        driver.run(ops.Queues())
        child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                new = [driver.run(enqueue(job(f"child {n}")))[0].status for n in range(50)]
                os._exit(0 if new == ["new"] * 50 else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
    finally:
        over.set()
        thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert set(answers) == {"new"}
    assert len([id for id in drain(driver.run) if id.startswith("child")]) == 50
    driver.close()


def test_threads_share_a_driver(redis_url: str, unique_name: str) -> None:
    driver = open_driver(redis_url, unique_name)
    statuses: list[str] = []

    def produce(name: int) -> None:
        statuses.extend(driver.run(enqueue(job(f"{name} {n}")))[0].status for n in range(50))

    threads = [threading.Thread(target=produce, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == ["new"] * 400
    assert len(drain(driver.run)) == 400
    driver.close()
    driver.close()
    assert driver.run(ops.Queues())[0].ready == 0  # it opens again
    driver.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_users_passwords_databases_and_unix_sockets(
    colour: str, redis_server_factory: Factory, unique_name: str, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    server = redis_server_factory().start(unixsocket=path)
    assert ask(server.port, b"CONFIG SET requirepass p@ss/word\r\n") == "+OK\r\n"
    for url in (
        f"redis://:p%40ss%2Fword@127.0.0.1:{server.port}/3",
        f"redis://default:p%40ss%2Fword@127.0.0.1:{server.port}/3",
        f"unix://:p%40ss%2Fword@{path}?db=3",
    ):
        driver = open_driver(url, unique_name)
        run = await _colour(driver, colour)
        await run(enqueue(job("a")))
        assert (await run(ops.Get("a"))).state == State.READY
        await driver.aclose()
    for wrong in (f"redis://127.0.0.1:{server.port}", f"redis://:no@127.0.0.1:{server.port}"):
        driver = open_driver(wrong, unique_name)
        run = await _colour(driver, colour)
        with pytest.raises(StoreMisconfigured, match="user"):
            await run(ops.Prepare())
        await driver.aclose()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://localhost", "use redis://"),
        ("redis://localhost/x", "no valid port or database"),
        ("redis://localhost:99999", "no valid port or database"),
        ("redis://localhost?decode_responses=1", "decode_responses"),
        ("redis://localhost?colour=red", "colour is no option"),
        ("redis://localhost?socket_timeout=soon", "socket_timeout is 'soon'"),
        ("redis://localhost?socket_timeout=0", "socket_timeout is '0'"),
        ("rediss://localhost?ssl_cert_reqs=maybe", "ssl_cert_reqs is 'maybe'"),
        ("redis://localhost?allow_eviction=perhaps", "allow_eviction is 'perhaps'"),
    ],
)
def test_a_wrong_url_is_refused_with_the_fix(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        RedisDriver(url, RedisStore())


def test_a_client_object_is_refused() -> None:
    """B104: it may decode what is not text."""
    import redis

    client = redis.Redis(decode_responses=True)
    with pytest.raises(ConfigError, match="hand over the URL"):
        RedisDriver(client, RedisStore())  # type: ignore[arg-type]


def test_an_address_is_read_whole() -> None:
    address = parse("rediss://a%3Ab:p%25@[::1]:7000/2?socket_timeout=2&ssl_check_hostname=no&ssl_cert_reqs=none")
    assert (address.host, address.port, address.db, address.tls) == ("::1", 7000, 2, True)
    assert (address.username, address.password) == ("a:b", "p%")
    assert (address.socket_timeout, address.connect_timeout) == (2.0, 2.0)
    assert str(address) == "rediss://a:b:***@[::1]:7000/2"
    context = address.tls_context()
    assert context is not None
    assert not context.check_hostname
    assert parse("redis://localhost") == addresses.Address()


def test_bytes_that_are_no_text_come_back_as_they_were(redis_url: str, unique_name: str) -> None:
    """B104."""
    driver = open_driver(redis_url, unique_name)
    body = bytes(range(256)) * 4
    driver.run(enqueue(job("a", body=body)))
    assert driver.run(claim(1)).jobs[0].body == body
    driver.close()
