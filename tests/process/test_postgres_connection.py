"""Connections that are cut, late, half-open, shared; a server that is killed, frozen, or takes no writes."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.postgres import PostgresDriver
from headrace.drivers.postgres import driver as driving
from headrace.drivers.postgres.address import parse
from headrace.drivers.postgres.line import Line, Statements
from headrace.errors import InvalidArguments, StoreMisconfigured, StoreUnavailable
from headrace.stores.plan import Statement
from tests.process.postgres_jobs import ask, open_driver, plain
from tests.process.redis_jobs import claim, drain, enqueue, job, repeat, settle
from tests.proxy import Proxy
from tests.servers import PostgresServer
from tests.waiting import await_until, wait_until

NUL = "a\x00b"

Factory = Callable[[], PostgresServer]
ProxyFactory = Callable[[str], Proxy]


@pytest.fixture
def proxy(postgres_url: str, proxy_factory: ProxyFactory) -> Proxy:
    return proxy_factory(postgres_url)


def in_colour(driver: PostgresDriver, colour: str) -> Callable[[Any], Awaitable[Any]]:
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
    run = in_colour(driver, colour)

    async def lost(operation: Any, containing: bytes = b"") -> Any:
        """The answer of the repetition; the first one must be reported as lost and must not be sent again by itself.

        `containing`: among its parameters, where the first answer may be to the statement's preparation.
        """
        await run(ops.Workers())  # so that a connection is there, and no hint under way
        before = proxy.dropped
        proxy.drop_reply(containing)
        with pytest.raises(StoreUnavailable):
            await run(operation)
        assert proxy.dropped == before + 1
        return await run(operation)

    assert [one.status for one in await lost(enqueue(job("a")))] == ["exists"]
    assert [one.status for one in await lost(enqueue(job("b"), job("c")), b'{"b","c"}')] == ["exists"] * 2
    claimed = await lost(claim(1, 3))
    assert [each.id for each in claimed.jobs] == ["a", "b", "c"]
    assert await lost(settle(claimed.jobs[:1])) == [False]  # "stale" after a repetition means: unknown
    assert await lost(settle(claimed.jobs[1:2], State.FAILED), b'{"b"}') == [False]
    held = (ops.Held("c", "q", claimed.jobs[2].token),)
    assert (await lost(ops.Beat("w", ("q",), 10**7, held, 2))).lost == []
    assert (await run(ops.Get("c"))).state == State.RUNNING
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_cut_connection_is_opened_again(colour: str, proxy: Proxy, unique_name: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    run = in_colour(driver, colour)
    for n in range(5):
        await repeat(run, enqueue(job(str(n))))
        proxy.cut()
    claimed = await repeat(run, claim(1))
    assert len(claimed.jobs) == 5
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_connection_that_died_while_idle_is_not_the_next_callers_error(
    colour: str, postgres_url: str, unique_name: str
) -> None:
    driver = open_driver(postgres_url, unique_name, f"application_name={unique_name}")
    run = in_colour(driver, colour)
    await run(enqueue(job("a")))
    ended = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = %s"
    assert await asyncio.to_thread(ask, postgres_url, ended, unique_name) >= 1
    assert [one.status for one in await run(enqueue(job("b")))] == ["new"]
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_silence_is_not_waited_for(colour: str, proxy: Proxy, unique_name: str) -> None:
    """B127. Half-open: nothing is closed, nothing is answered."""
    driver = open_driver(proxy.url, unique_name, "timeout=0.5")
    run = in_colour(driver, colour)
    await run(enqueue(job("a")))
    proxy.swallow()
    with pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s"):
        await run(enqueue(job("b")))
    proxy.swallow(on=False)
    proxy.cut()
    assert (await repeat(run, enqueue(job("b"))))[0].status == "new"
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_nobody_there_is_said_without_the_password(colour: str, proxy: Proxy, unique_name: str) -> None:
    proxy.refuse()
    driver = open_driver(f"postgresql://me:secret@127.0.0.1:{proxy.port}/jobs", unique_name)
    with pytest.raises(StoreUnavailable, match=r"no connection to postgresql://me:\*\*\*@127") as caught:
        await in_colour(driver, colour)(ops.Workers())
    assert "secret" not in str(caught.value) + driver.describe()
    await driver.aclose()


async def test_a_cancelled_caller_leaves_the_operation_to_finish(proxy: Proxy, unique_name: str) -> None:
    """And answers go to whom they belong."""
    driver = open_driver(proxy.url, unique_name, "pool_size=3")
    await driver.arun(enqueue(*[job(str(n)) for n in range(20)]))
    proxy.latency = 0.02
    tasks = [asyncio.create_task(driver.arun(ops.Get(str(n)))) for n in range(20)]
    late = asyncio.create_task(driver.arun(enqueue(job("late"))))
    await asyncio.sleep(0)
    for task in (*tasks[::3], late):
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in answers] == [n % 3 == 0 for n in range(20)]
    assert all(one.id == str(n) for n, one in enumerate(answers) if n % 3)  # type: ignore[union-attr]

    async def stored() -> bool:
        return await driver.arun(ops.Get("late")) is not None

    await await_until(stored)
    await driver.aclose()


async def test_a_cancelled_operation_that_does_not_end_gives_its_connection_up(
    postgres_url: str, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "GRACE_S", 0.2)
    driver = open_driver(postgres_url, unique_name, f"application_name={unique_name}")
    await driver.arun(enqueue(job("a", unique="k")))
    with plain(postgres_url) as other:  # holds the row that the claim's settle needs
        other.execute(f"select 1 from {unique_name}_jobs for update")
        task = asyncio.create_task(driver.arun(ops.Cancel("a")))
        waiting = "select count(*) from pg_locks as l join pg_stat_activity as a using (pid) where not l.granted and "
        await await_until(lambda: ask(postgres_url, waiting + "a.application_name = %s", unique_name))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await await_until(lambda: not driver._orphans)
        pool = driver._mine().loop_pool(driver)
        assert not pool._idle
        assert not pool._lent
    assert await driver.arun(ops.Get("a")) is not None
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_every_accepted_job_outlives_a_restart(
    colour: str, postgres_server_factory: Factory, unique_name: str
) -> None:
    """B032: a producer goes on while the server is killed and started: accepted = stored, the others were told."""
    server = postgres_server_factory().start()
    driver = open_driver(server.url, unique_name)
    run = in_colour(driver, colour)
    accepted: set[str] = set()
    refused: set[str] = set()

    async def produce() -> None:
        n = 0
        while len(accepted) < 300 or not refused:
            n += 1
            try:
                await run(enqueue(job(str(n))))
            except StoreUnavailable:
                refused.add(str(n))
                await asyncio.sleep(0)
            else:
                accepted.add(str(n))

    producer = asyncio.create_task(produce())
    await await_until(lambda: len(accepted) >= 100)
    server.kill()
    await await_until(lambda: refused)
    await asyncio.to_thread(server.restart)
    await producer
    stored = set(await asyncio.to_thread(drain, driver.run))
    assert accepted <= stored  # a refused one may have been stored: its reply was lost
    assert stored <= accepted | refused
    await driver.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_frozen_server_keeps_nobody_waiting(
    colour: str, postgres_server_factory: Factory, unique_name: str
) -> None:
    """B127: its kernel still answers for it."""
    server = postgres_server_factory().start()
    driver = open_driver(server.url, unique_name, "timeout=0.5&connect_timeout=2")
    run = in_colour(driver, colour)
    await run(enqueue(job("a")))
    backends = await asyncio.to_thread(_freeze, server)
    with pytest.raises(StoreUnavailable):
        await run(enqueue(job("b")))
    _thaw(server, backends)
    assert (await repeat(run, enqueue(job("c"))))[0].status == "new"
    await driver.aclose()


def test_who_is_frozen_within_a_transaction_loses_its_locks(postgres_url: str, unique_name: str) -> None:
    """Else nobody could claim what it had looked at, and no dead row could be cleared away, until it is killed."""
    driver = open_driver(postgres_url, unique_name, f"timeout=0.5&application_name={unique_name}")
    driver.run(enqueue(job("a")))
    line = driver._mine().pool.take()
    line.connection.execute(f"begin; select 1 from {unique_name}_jobs for update".encode())
    there = "select count(*) from pg_stat_activity where application_name = %s and state = 'idle in transaction'"
    wait_until(lambda: ask(postgres_url, there, unique_name) == 0, 20)
    driver._mine().pool.put_back(line)
    assert [each.id for each in driver.run(claim(1)).jobs] == ["a"]
    driver.close()


def _freeze(server: PostgresServer) -> list[int]:
    with plain(server.url) as connection:
        rows = connection.execute(b"select pid from pg_stat_activity where pid <> pg_backend_pid()").fetchall()
    backends = [pid for (pid,) in rows]
    server.freeze()
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    return backends


def _thaw(server: PostgresServer, backends: list[int]) -> None:
    for pid in backends:
        os.kill(pid, signal.SIGCONT)
    server.thaw()


def test_a_server_that_takes_no_writes_says_so(postgres_server_factory: Factory, unique_name: str) -> None:
    server = postgres_server_factory().start(default_transaction_read_only="on")
    driver = open_driver(server.url, unique_name)
    with pytest.raises(StoreMisconfigured, match="is a standby and takes no writes: connect to the primary"):
        driver.run(enqueue(job("a")))
    driver.close()


def test_a_crowd_waits_for_connections_and_a_heartbeat_does_not(postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name, "pool_size=1&timeout=0.3")
    driver.run(ops.Prepare())
    line = driver._mine().pool.take()
    with pytest.raises(StoreUnavailable, match=r"all 1 connections to .* were in use for 0\.3 s: raise pool_size"):
        driver.run(ops.Workers())
    assert driver.run(ops.Beat("w", ("q",), 10**7, (), 0)).lost == []
    driver._mine().pool.put_back(line)
    assert [view.worker for view in driver.run(ops.Workers())] == ["w"]
    driver.close()


@pytest.mark.parametrize("id", [NUL, "a\udc80b"])
def test_a_text_that_postgres_cannot_store_is_refused(id: str, postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name)
    with pytest.raises(InvalidArguments):
        driver.run(enqueue(job(id)))
    with pytest.raises(InvalidArguments, match="too long"):
        driver.run(enqueue(job("".join(sha256(bytes([n])).hexdigest() for n in range(200)))))
    assert driver.run(enqueue(job('quotes " and \\ and , {} NULL')))[0].status == "new"
    assert driver.run(ops.Get('quotes " and \\ and , {} NULL')) is not None
    driver.close()


@pytest.mark.parametrize("options", ["pool_size=1", "pool_size=1&pgbouncer=1"])
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_refused_operation_leaves_its_connection_to_the_next(
    colour: str, options: str, postgres_url: str, unique_name: str
) -> None:
    """Refused by us or by the server, within a transaction or without one."""
    driver = open_driver(postgres_url, unique_name, f"{options}&application_name={unique_name}")
    run = in_colour(driver, colour)
    long = "".join(sha256(bytes([n])).hexdigest() for n in range(200))
    for refused in (
        ops.Cancel(NUL),
        ops.Get(NUL),
        ops.Replay((NUL,)),
        enqueue(job(long)),
        enqueue(job(long), job("a")),
    ):
        with pytest.raises(InvalidArguments):
            await run(refused)
    assert [one.status for one in await run(enqueue(job("a")))] == ["new"]
    count = "select count(*) from pg_stat_activity where application_name = %s and xact_start is null"
    assert await asyncio.to_thread(ask, postgres_url, count, unique_name) == 1
    await driver.aclose()


def test_tables_that_vanish_are_made_again(postgres_url: str, unique_name: str) -> None:
    """The error tells; the operation after it begins anew."""
    driver = open_driver(postgres_url, unique_name)
    driver.run(enqueue(job("a")))
    with plain(postgres_url) as other:
        names = other.execute(b"select tablename from pg_tables where tablename like %s", (f"{unique_name}\\_%",))
        for (name,) in names.fetchall():
            other.execute(f"drop table {name} cascade".encode())
        other.execute(f"drop sequence if exists {unique_name}_place cascade".encode())
        other.execute(f"drop function {unique_name}_undo_ended cascade".encode())
    with pytest.raises(StoreUnavailable, match="tables of headrace are missing"):
        driver.run(enqueue(job("a")))
    wait_until(lambda: driver.run(enqueue(job("a")))[0].status == "new")
    driver.close()


@pytest.mark.parametrize("pooled", ["", "pgbouncer=1"])
def test_the_isolation_is_ours_whatever_the_role_has(postgres_url: str, unique_name: str, pooled: str) -> None:
    """A snapshot that is kept would hide from an enqueue what has become of the same job meanwhile."""
    role = f"{unique_name}_strict"
    with plain(postgres_url) as admin:
        admin.execute(f"create role {role} superuser login")
        admin.execute(f"alter role {role} set default_transaction_isolation to 'serializable'")
    url = postgres_url.replace("//headrace@", f"//{role}@")
    assert ask(url, "show transaction_isolation") == "serializable"
    line = Line(parse(f"{url}?{pooled}"), Statements({"isolation": "show transaction_isolation"}))
    try:
        alone = [line.execute(Statement("isolation", alone=True))]
        within = [line.execute(Statement("isolation")) for _ in "ab"]
    finally:
        line.close()
        with plain(postgres_url) as admin:
            admin.execute(f"drop role {role}")
    assert alone + within == [[("read committed",)]] * 3
