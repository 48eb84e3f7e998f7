"""The connections: cut, late, frozen, shared, forked; a server that goes away and comes back."""

import asyncio
import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pymysql
import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.text import literal
from headrace.errors import (
    InvalidArguments,
    StoreUnavailable,
)
from headrace.testing.conformance.harness import job
from tests.process.mysql_jobs import ask, at_once, claim, enqueue, open_driver, settle
from tests.proxy import Proxy
from tests.servers import MariaServer
from tests.waiting import await_until, wait_until

Factory = Callable[[], MariaServer]
ProxyFactory = Callable[[str], Proxy]
COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


@pytest.fixture
def proxy(mysql_url: str, proxy_factory: ProxyFactory) -> Proxy:
    return proxy_factory(mysql_url)


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    yield driver
    driver.close()


def coloured(driver: MySQLDriver, colour: str) -> Callable[[Any], Awaitable[Any]]:
    """The driver's `run` or `arun`, awaited alike; `run` goes to a thread so that a fault does not stop us."""
    if colour == "async":
        return driver.arun

    async def run(operation: Any) -> Any:
        return await asyncio.to_thread(driver.run, operation)

    return run


def connections(url: str, name: str = "headrace") -> int:
    """How many connections of ours the server counts, without the one that asks."""
    return int(ask(url, "select count(*) - 1 from information_schema.processlist where user = %s", name)[0][0])


# -- what is sent


def test_values_become_literals_that_no_setting_reads_in_another_way() -> None:
    assert [literal(value) for value in (None, 5, -5, b"0199-a", b"a'b\\", b"", "ready")] == [
        *("null", "5", "-5", "'0199-a'", "x'6127625c'", "x''", "'ready'")
    ]
    assert literal([b"a", (1, None)]) == "('a',(1,null))"
    with pytest.raises(TypeError):
        literal(1.5)


@pytest.mark.parametrize("nasty", ["'", "\\", "%s %(id)s :id", "\x00", "é'--", "🦄", "a" * 200, " a ", "A"])
def test_any_text_comes_back_as_it_was_sent(driver: MySQLDriver, nasty: str) -> None:
    other = nasty.strip().lower() + "."
    assert enqueue(driver.run, job(nasty, unique=nasty, body=nasty.encode()), other) == ["new", "new"]
    view = driver.run(ops.Get(nasty))
    assert view is not None
    assert (view.id, view.unique, view.body) == (nasty, nasty, nasty.encode())
    assert sorted(each.id for each in claim(driver.run, 1, 5)) == sorted([nasty, other])


def test_texts_that_differ_in_case_or_in_trailing_spaces_differ(driver: MySQLDriver) -> None:
    names = ("a", "A", "a ", "ä", "Ä")
    assert enqueue(driver.run, *(job(name, unique=name) for name in names)) == ["new"] * 5


@pytest.mark.parametrize(
    ("new", "word"),
    [
        (job("i" * 801), "the id"),
        (job("a", "q" * 256), "the queue"),
        (job("a", task="t" * 1001), "the task"),
        (job("a", unique="k" * 2001), "the unique key"),
        (ops.NewJob("\ud800", "q", "t", b""), "surrogate"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(driver: MySQLDriver, new: ops.NewJob, word: str) -> None:
    with pytest.raises(InvalidArguments, match=word):
        enqueue(driver.run, new, "b")
    assert enqueue(driver.run, "b") == ["new"]


def test_the_longest_texts_that_an_app_may_use_fit(driver: MySQLDriver) -> None:
    long = job("é" * 200, "q" * 200, unique="🦄" * 500, task="é" * 400)
    assert enqueue(driver.run, long) == ["new"]
    assert driver.run(ops.Enqueue((job("b", "q" * 200, unique="🦄" * 500),)))[0].status == "duplicate"


@COLOURS
async def test_bodies_of_a_megabyte_go_in_together(driver: MySQLDriver, colour: str) -> None:
    run = coloured(driver, colour)
    bodies = [bytes([n]) * 1_000_000 for n in range(9)]
    await run(ops.Enqueue(tuple(job(f"{n}", body=body) for n, body in enumerate(bodies))))
    claimed = await run(ops.Claim("w", 1, ("q",), 9, 10**7))
    assert [each.body for each in claimed.jobs] == bodies
    await driver.aclose()


# -- connections


def test_nothing_is_opened_before_the_first_operation(unique_name: str) -> None:
    driver = open_driver("mysql://nobody:secret@127.0.0.1:1/none", unique_name)
    assert driver.describe() == "mysql://nobody:***@127.0.0.1:1/none"
    with pytest.raises(StoreUnavailable, match="no answer") as refused:
        driver.run(ops.Queues())
    assert "secret" not in str(refused.value)
    driver.close()


@COLOURS
async def test_connections_are_used_again_and_closed_at_the_end(
    mariadb_server_factory: Factory, unique_name: str, colour: str
) -> None:
    url = mariadb_server_factory().start().url
    driver = open_driver(url, unique_name)
    run = coloured(driver, colour)
    for n in range(5):
        await run(ops.Enqueue((job(f"{n}"),)))
    assert connections(url) == 1
    await driver.aclose()
    driver.close()
    await await_until(lambda: connections(url) == 0, what="the server to see them gone")


async def test_coroutines_share_a_few_connections(mariadb_server_factory: Factory, unique_name: str) -> None:
    url = mariadb_server_factory().start().url
    driver = open_driver(url, unique_name)
    await driver.arun(ops.Prepare())
    await asyncio.gather(*[driver.arun(ops.Enqueue((job(f"{n}"),))) for n in range(100)])
    assert 1 <= connections(url) <= 8
    assert (await driver.arun(ops.Queues()))[0].ready == 100
    await driver.aclose()


@COLOURS
async def test_an_idle_connection_that_the_server_closed_fails_nobody(
    driver: MySQLDriver, mysql_url: str, colour: str
) -> None:
    """wait_timeout, or an administrator: nothing was sent on it, so there is nothing to be unsure of."""
    run = coloured(driver, colour)
    await run(ops.Prepare())
    for n in range(3):
        rows = ask(mysql_url, "select id from information_schema.processlist where command = 'Sleep'")
        for (number,) in rows:
            try:
                ask(mysql_url, f"kill {number}")
            except pymysql.OperationalError:  # another test's, gone meanwhile
                continue
        await await_until(
            lambda: not ask(mysql_url, "select id from information_schema.processlist where command = 'Sleep'")
        )
        assert [each.status for each in await run(ops.Enqueue((job(f"{n}"),)))] == ["new"]
    await driver.aclose()


@COLOURS
async def test_a_lost_reply_is_reported_and_the_repetition_changes_nothing(
    proxy: Proxy, unique_name: str, colour: str
) -> None:
    """The answer of the commit is lost: whether it took place is unknown, and nothing is sent again by itself."""
    driver = open_driver(proxy.url, unique_name)
    run = coloured(driver, colour)
    await run(ops.Prepare())

    async def lost(operation: Any) -> Any:
        before = proxy.dropped
        proxy.drop_reply(b"commit")
        with pytest.raises(StoreUnavailable):
            await run(operation)
        assert proxy.dropped == before + 1
        return await run(operation)

    assert [one.status for one in await lost(ops.Enqueue((job("a"), job("b", unique="k"))))] == ["exists"] * 2
    claimed = await lost(ops.Claim("w", 1, ("q",), 5, 10**7))
    assert [each.id for each in claimed.jobs] == ["a", "b"]
    assert await lost(settle(claimed.jobs[:1])) == [False]
    assert await lost(settle(claimed.jobs[1:], State.FAILED)) == [False]
    assert (await lost(ops.Replay(("b",)))).skipped == {"b": "is ready"}
    assert await lost(ops.Cancel("b")) == "finished"
    await driver.aclose()
    driver.close()


@COLOURS
async def test_a_cut_connection_undoes_what_was_half_done(proxy: Proxy, unique_name: str, colour: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    run = coloured(driver, colour)
    await run(ops.Prepare())
    proxy.drop_reply(b"insert into")
    with pytest.raises(StoreUnavailable):
        await run(ops.Enqueue((job("a"),)))
    assert [each.status for each in await run(ops.Enqueue((job("a"),)))] == ["new"]
    await driver.aclose()
    driver.close()


@COLOURS
async def test_a_silent_server_is_given_up(proxy: Proxy, unique_name: str, colour: str) -> None:
    driver = open_driver(proxy.url + "?read_timeout=0.3&connect_timeout=1", unique_name)
    run = coloured(driver, colour)
    await run(ops.Prepare())
    proxy.swallow()
    with pytest.raises(StoreUnavailable):
        await run(ops.Queues())
    with pytest.raises(StoreUnavailable):  # a new connection is not even greeted
        await run(ops.Queues())
    proxy.swallow(False)
    proxy.cut()
    assert await run(ops.Queues()) == []
    await driver.aclose()
    driver.close()


@COLOURS
async def test_a_server_that_is_killed_and_comes_back(
    mariadb_server_factory: Factory, unique_name: str, colour: str
) -> None:
    """What was acknowledged is there, as its settings promise."""
    server = mariadb_server_factory().start(innodb_flush_log_at_trx_commit=1)
    driver = open_driver(server.url, unique_name)
    run = coloured(driver, colour)
    await run(ops.Enqueue((job("a"),)))
    server.kill()
    with pytest.raises(StoreUnavailable):
        await run(ops.Enqueue((job("b"),)))
    await asyncio.to_thread(server.start, innodb_flush_log_at_trx_commit=1)
    assert [each.status for each in await run(ops.Enqueue((job("a"), job("b"))))] == ["exists", "new"]
    await driver.aclose()
    driver.close()


@COLOURS
async def test_a_frozen_server(mariadb_server_factory: Factory, unique_name: str, colour: str) -> None:
    server = mariadb_server_factory().start()
    driver = open_driver(server.url + "?read_timeout=0.5&connect_timeout=1", unique_name)
    run = coloured(driver, colour)
    await run(ops.Enqueue((job("a"),)))
    server.freeze()
    try:
        with pytest.raises(StoreUnavailable):
            await run(ops.Enqueue((job("b"),)))
    finally:
        server.thaw()
    statuses = [each.status for each in await run(ops.Enqueue((job("b"),)))]
    assert statuses in (["new"], ["exists"])
    assert (await run(ops.Queues()))[0].ready == 2
    await driver.aclose()
    driver.close()


async def test_a_cancelled_caller_leaves_its_operation_to_finish(proxy: Proxy, unique_name: str) -> None:
    driver = open_driver(proxy.url, unique_name)
    await driver.arun(ops.Prepare())
    proxy.latency = 0.05
    caller = asyncio.create_task(driver.arun(ops.Enqueue((job("a"),))))
    await await_until(lambda: bool(driver._loops[asyncio.get_running_loop()]._room._value < 8))
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await await_until(lambda: not driver._orphans, what="the operation to finish")
    proxy.latency = 0
    assert (await driver.arun(ops.Queues()))[0].ready == 1
    await driver.aclose()


async def test_an_abandoned_operation_that_does_not_finish_is_cut(
    proxy: Proxy, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3b.11: after a few seconds its connection is closed, and never used again."""
    monkeypatch.setattr("headrace.drivers.mysql.driver.GRACE", 0.2)
    driver = open_driver(proxy.url, unique_name)
    await driver.arun(ops.Prepare())
    lines = driver._loops[asyncio.get_running_loop()]
    line = lines._idle[0]
    proxy.swallow()
    caller = asyncio.create_task(driver.arun(ops.Enqueue((job("a"),))))
    await await_until(lambda: not lines._idle)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await await_until(lambda: not driver._orphans, what="the operation to be given up")
    assert not line.usable
    assert lines._idle == []
    proxy.swallow(False)
    proxy.cut()
    assert [each.status for each in await driver.arun(ops.Enqueue((job("a"),)))] == ["new"]
    await driver.aclose()


def test_a_forked_child_opens_connections_of_its_own(driver: MySQLDriver) -> None:
    """B121: and the parent's are as they were, though the child has closed its copies."""
    driver.run(ops.Prepare())
    before = driver.run(ops.Enqueue((job("parent"),)))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if driver.run(ops.Enqueue((job("child"),)))[0].status == "new" else 2
            driver.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [each.status for each in before + driver.run(ops.Enqueue((job("child"), job("after"))))] == [
        *("new", "exists", "new")
    ]


def test_threads_do_not_share_a_connection(driver: MySQLDriver) -> None:
    driver.run(ops.Prepare())
    answers = at_once(*(lambda n=n: enqueue(driver.run, *(f"{n}-{k}" for k in range(20))) for n in range(6)))  # type: ignore[misc]
    assert answers == [["new"] * 20] * 6


async def test_two_loops_do_not_share_a_connection(driver: MySQLDriver) -> None:
    await driver.arun(ops.Enqueue((job("a"),)))

    async def other() -> list[ops.Enqueued]:
        try:
            return await driver.arun(ops.Enqueue((job("a"), job("b"))))
        finally:
            await driver.aclose()

    answers = await asyncio.to_thread(lambda: asyncio.run(other()))
    assert [each.status for each in answers] == ["exists", "new"]
    assert (await driver.arun(ops.Queues()))[0].ready == 2
    await driver.aclose()


def test_an_app_runs_on_it(mysql_url: str, unique_name: str) -> None:
    app = Headrace(mysql_url, name=unique_name)
    ran: list[int] = []

    @app.task(unique="{n}")
    async def note(n: int) -> None:
        ran.append(n)

    assert [note.enqueue(n=n).duplicate for n in (1, 2, 2)] == [False, False, True]

    async def work() -> None:
        worker = app.worker(concurrency=2)
        running = asyncio.create_task(worker.run())
        await await_until(lambda: len(ran) == 2)
        worker.stop()
        await running
        await app.aclose()

    asyncio.run(work())
    assert sorted(ran) == [1, 2]
    app.close()


def test_an_interrupted_caller_leaves_no_answer_behind(driver: MySQLDriver) -> None:
    """An interrupted synchronous caller (Ctrl-C, a timeout by signal) leaves no half-read answer behind."""
    driver.run(ops.Prepare())

    def enqueue_on_and_on() -> None:
        for n in itertools.count():
            enqueue(driver.run, *(f"{n}-{k}" for k in range(50)))

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupted)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            enqueue_on_and_on()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert enqueue(driver.run, "after") == ["new"]
    wait_until(lambda: driver.run(ops.Get("after")) is not None)
