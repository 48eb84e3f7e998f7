"""A worker and a producer while Redis restarts, loses connections, forgets and fills up. Cases B026 to B037."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Fixed, Headrace, Retry, StoreFull, StoreMisconfigured, StoreUnavailable
from headrace.core import operations as ops
from headrace.core.ports import Driver
from tests.cases.running import Works, ended, working
from tests.proxy import Proxy
from tests.servers import RedisServer
from tests.waiting import await_until, wait_until

Factory = Callable[[], RedisServer]
ProxyFactory = Callable[[str], Proxy]


class Shop:
    """An app with one task, `note`, which writes down what it was given and when."""

    def __init__(self, url: str, name: str, **options: Any) -> None:
        options.setdefault("lease", 3)
        self.app = Headrace(url, name=name, **options)
        self.done: list[int] = []
        self.at: dict[int, float] = {}

        @self.app.task(name="note")
        async def note(number: int) -> None:
            self.at.setdefault(number, time.time())
            self.done.append(number)

        self.note = note

    async def wait_for(self, numbers: range, seconds: float = 10) -> None:
        await await_until(lambda: set(self.done) >= set(numbers), seconds, f"jobs {numbers}")


async def redis(server: RedisServer, *words: str) -> Any:
    """One command to the server, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        parts = (f"${len(word)}\r\n{word}\r\n" for word in words)
        writer.write(f"*{len(words)}\r\n{''.join(parts)}".encode())
        return (await reader.read(65536)).decode()
    finally:
        writer.close()


async def blocked(server: RedisServer) -> bool:
    """Whether somebody waits in a blocking pop."""
    return "blocked_clients:0" not in await redis(server, "INFO", "clients")


async def test_a_worker_consumes_after_every_reconnect(redis_server_factory: Factory, unique_name: str) -> None:
    """B026: all connections killed five times; then jobs run, the lease is renewed, and a job wakes the worker."""
    server = redis_server_factory().start()
    shop = Shop(server.url, unique_name)
    async with working(shop.app):
        for _ in range(5):
            await await_until(lambda: blocked(server), what="the wake-up's connection")
            assert (await redis(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))[0] == ":"
        await await_until(lambda: blocked(server), what="the wake-up's connection")
        for number in range(10):
            await shop.note.aenqueue(number)
        await shop.wait_for(range(10))
        before = (await shop.app.ajobs.workers())[0].lease_until_us
        await await_until(lambda: _renewed(shop, before), what="a heartbeat")
        waited = [await _pick_up(shop, server, number) for number in range(10, 15)]
        assert sorted(waited)[2] < 0.25  # rung: the poll alone would take half a second on average
    assert sorted(shop.done) == list(range(15))
    await shop.app.aclose()


async def _pick_up(shop: Shop, server: RedisServer, number: int) -> float:
    """How long an idle worker takes to start a job."""
    await await_until(lambda: blocked(server))
    start = time.time()
    await shop.note.aenqueue(number)
    await shop.wait_for(range(number, number + 1))
    return shop.at[number] - start


async def _renewed(shop: Shop, before_us: int) -> bool:
    return (await shop.app.ajobs.workers())[0].lease_until_us > before_us


class FailingClaims:
    """A driver whose claims raise what no store raises, until `healed`."""

    def __init__(self, inner: Driver) -> None:
        self._inner = inner
        self.refused = 0
        self.healed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def arun(self, operation: ops.Operation[Any]) -> Any:
        if isinstance(operation, ops.Claim) and not self.healed:
            self.refused += 1
            raise ZeroDivisionError("a bug in the claim")
        return await self._inner.arun(operation)


async def test_a_worker_that_cannot_fetch_does_not_look_as_if_it_did(
    redis_url: str, unique_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B027, as far as there is no health endpoint and no supervisor yet: progress is that of the fetch loop, not that
    of the heartbeat; each failure is logged; and the loop goes on as soon as it can."""
    shop = Shop(redis_url, unique_name, lease=1)
    shop.app.driver = driver = FailingClaims(shop.app.driver)  # type: ignore[assignment]
    await shop.note.aenqueue(1)
    async with working(shop.app) as worker:
        progressed_at = worker.fetcher.progressed_at
        before = (await shop.app.ajobs.workers())[0].lease_until_us
        await await_until(lambda: driver.refused >= 4, what="refused claims")
        await await_until(lambda: _renewed(shop, before), what="a heartbeat")
        assert worker.fetcher.progressed_at == progressed_at
        assert shop.done == []
        driver.healed = True
        await shop.wait_for(range(1, 2))
        assert worker.fetcher.progressed_at > progressed_at
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) >= 4
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in errors)
    await shop.app.aclose()


async def test_an_idle_worker_keeps_its_connections(
    redis_url: str, proxy_factory: ProxyFactory, unique_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B029: the wake-up blocks for longer than `socket_timeout`; the worker neither quits, warns nor reconnects."""
    proxy = proxy_factory(redis_url)
    shop = Shop(f"{proxy.url}?socket_timeout=0.4", unique_name)
    async with working(shop.app) as worker:
        await shop.note.aenqueue(1)
        await shop.wait_for(range(1, 2))
        connections, polls = proxy.accepted, worker.fetcher._number
        await await_until(lambda: worker.fetcher._number >= polls + 4, what="four idle polls")
        assert proxy.accepted == connections
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
    await shop.app.aclose()


async def test_a_delayed_job_outlives_a_restart(redis_server_factory: Factory, unique_name: str) -> None:
    """B030: the server is killed and started while the job waits and the worker idles; it runs when it is due."""
    server = redis_server_factory().start(appendonly=True)
    shop = Shop(server.url, unique_name)
    async with working(shop.app):
        start = time.time()
        await shop.note.using(run_after=2).aenqueue(1)
        server.kill()
        await asyncio.to_thread(server.restart)
        await shop.wait_for(range(1, 2))
    assert 2 <= shop.at[1] - start < 6
    assert shop.done == [1]
    await shop.app.aclose()


async def test_due_times_are_kept_through_a_lost_connection(
    redis_url: str, proxy_factory: ProxyFactory, unique_name: str
) -> None:
    """B031: ticks each 0.4 s; what came due without a connection runs once it is back, all later ones on the grid."""
    proxy = proxy_factory(redis_url)
    shop = Shop(proxy.url, unique_name)
    grid = {number: number * 0.4 for number in range(1, 13)}
    async with working(shop.app):
        start = time.time()
        for number, due in grid.items():
            await shop.note.using(run_after=due).aenqueue(number)
        await shop.wait_for(range(1, 4))
        await asyncio.to_thread(proxy.refuse)
        gone = time.time()
        await await_until(lambda: time.time() - gone > 1)
        await asyncio.to_thread(proxy.refuse, on=False)
        back = time.time()
        await shop.wait_for(range(1, 13))
    late = {number: shop.at[number] - start - due for number, due in grid.items()}
    assert sorted(shop.done) == sorted(grid)
    assert min(late.values()) > 0
    overdue = {number: shop.at[number] - back for number, due in grid.items() if gone < start + due < back}
    assert len(overdue) >= 2
    assert max(overdue.values()) < 2
    assert max(late[number] for number in grid if number >= 9) < 0.8, late
    await shop.app.aclose()


async def test_accepted_is_stored_while_the_server_restarts(redis_server_factory: Factory, unique_name: str) -> None:
    """B032: whoever got an id gets a run, once; the others were told. Without resending, so that some are told."""
    server = redis_server_factory().start(appendonly=True)
    shop = Shop(server.url, unique_name, resend=0)
    accepted: list[int] = []
    refused: list[int] = []

    def produce() -> None:
        number = 0
        while len(accepted) < 400 or not refused:
            number += 1
            try:
                shop.note.enqueue(number)
            except StoreUnavailable:
                refused.append(number)
            else:
                accepted.append(number)

    async with working(shop.app):
        producer = asyncio.create_task(asyncio.to_thread(produce))
        await await_until(lambda: len(accepted) >= 100)
        server.kill()
        await await_until(lambda: refused)
        await asyncio.to_thread(server.restart)
        await producer
        await await_until(lambda: set(shop.done) >= set(accepted), 20, "every accepted job")
    assert set(shop.done) <= {*accepted, *refused}  # of one refused the reply may have been lost, not the job
    assert max(Counter(shop.done).values()) <= 2  # in the hands of the worker when its reports were cut off
    await shop.app.aclose()


async def test_an_enqueue_is_sent_again_until_the_server_is_back(
    redis_server_factory: Factory, unique_name: str
) -> None:
    """B032: by default a short outage is not noticed by a producer, and a job whose reply was lost is stored once."""
    server = redis_server_factory().start(appendonly=True)
    shop = Shop(server.url, unique_name)
    server.kill()
    waiting = [asyncio.create_task(shop.note.aenqueue(number)) for number in range(20)]
    await asyncio.to_thread(server.restart)
    jobs = await asyncio.gather(*waiting)
    assert len({job.id for job in jobs}) == 20
    async with working(shop.app):
        await shop.wait_for(range(20))
    assert sorted(shop.done) == list(range(20))
    await shop.app.aclose()


async def test_forgotten_scripts_are_not_noticed(
    redis_server_factory: Factory, unique_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B033: SCRIPT FLUSH again and again while a worker runs 500 jobs with retries, delays and unique keys."""
    server = redis_server_factory().start()
    shop = Shop(server.url, unique_name)
    runs: Counter[int] = Counter()

    @shop.app.task(name="again", retry=Retry(backoff=Fixed(0.01)))
    async def again(number: int) -> None:
        runs[number] += 1
        if number % 7 == 0 and runs[number] == 1:
            raise ValueError("the first time")

    over, flushed = asyncio.Event(), 0

    async def flush() -> None:
        nonlocal flushed
        while not over.is_set():
            assert await redis(server, "SCRIPT", "FLUSH") == "+OK\r\n"
            flushed += 1

    flusher = asyncio.create_task(flush())
    async with working(shop.app, concurrency=20):
        for number in range(500):
            task = again.using(run_after=number % 3 * 0.01, unique=f"k{number}" if number % 5 == 0 else None)
            assert (await task.aenqueue(number)).status == "new"
        await await_until(lambda: sum(runs.values()) >= 500 + 72, 30, "all runs")
        over.set()
        await flusher
    assert runs == Counter({number: 2 if number % 7 == 0 else 1 for number in range(500)})
    assert flushed > 50
    warnings = {record.message.partition(": ")[2] for record in caplog.records if record.levelno >= logging.WARNING}
    assert all(text.startswith("scheduled (ValueError)") for text in warnings), warnings
    await shop.app.aclose()


async def test_a_worker_drains_a_full_server(redis_server_factory: Factory, unique_name: str) -> None:
    """B036: an enqueue is refused in so many words; a worker that starts only then runs everything all the same."""
    server = redis_server_factory().start(maxmemory="4mb", maxmemory_policy="noeviction")
    shop = Shop(server.url, unique_name)

    @shop.app.task(name="fill", queue="fill", retry=Retry(backoff=Fixed(0)))
    async def fill(number: int, padding: str) -> None:
        if number % 50 == 0 and number not in shop.done:
            shop.done.append(number)
            raise ValueError("once")
        shop.at[number] = 0

    stored = 0

    async def fill_up() -> None:
        nonlocal stored
        while stored < 100_000:
            await fill.aenqueue_many({"number": stored + n, "padding": "x" * 500} for n in range(20))
            stored += 20

    with pytest.raises(StoreFull, match="give the server memory"):
        await fill_up()
    assert stored > 500
    await shop.app.aclose()
    async with working(shop.app):
        await await_until(lambda: len(shop.at) >= stored, 30, "an empty queue")
        assert (await fill.aenqueue(0, "room again")).status == "new"
    await shop.app.aclose()


def test_a_server_that_evicts_is_reported_at_the_start(
    redis_server_factory: Factory, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B036: with the fix, by the worker as by a producer; and once it has been followed, a worker works."""
    for name in ("JOBS_URL", "JOBS_NAME", "JOBS_SAID"):
        monkeypatch.setenv(name, "")
    server = redis_server_factory().start(maxmemory="5mb", maxmemory_policy="allkeys-lru")
    shop = Works(tmp_path, server.url, unique_name, '@app.task(name="note")\nasync def note() -> None: say("note")')
    try:
        with pytest.raises(
            StoreMisconfigured, match=r"maxmemory-policy is allkeys-lru.*CONFIG SET maxmemory-policy noeviction"
        ):
            shop.app.tasks["note"].enqueue()
        shop.start(wait=False)
        wait_until(lambda: "CONFIG SET maxmemory-policy noeviction" in shop.log(0), 30, "the worker's complaint")
        assert " started on " not in shop.log(0)
        asyncio.run(redis(server, "CONFIG", "SET", "maxmemory-policy", "noeviction"))
        shop.app.tasks["note"].enqueue()
        shop.start()
        shop.wait_for("note")
    finally:
        shop.close()


async def test_a_flushed_server_is_a_fresh_start(redis_server_factory: Factory, unique_name: str) -> None:
    """B037, as far as there are no schedules yet: workers that were up register again and run what is enqueued."""
    server = redis_server_factory().start()
    shop = Shop(server.url, unique_name, lease=1)
    async with working(shop.app) as worker:
        await shop.note.aenqueue(1)
        await shop.wait_for(range(1, 2))
        assert await redis(server, "FLUSHALL") == "+OK\r\n"
        await shop.note.aenqueue(2)
        await shop.wait_for(range(2, 3))
        await await_until(lambda: _registered(shop, worker.id), what="the worker's registration")
        job = await shop.note.using(run_after=0.1).aenqueue(3)
        assert await ended(shop.app, job.id) is None
        assert [view.name for view in await shop.app.ajobs.queues()] == ["default"]
    assert shop.done == [1, 2, 3]
    await shop.app.aclose()


async def _registered(shop: Shop, id: str) -> bool:
    return id in {view.worker for view in await shop.app.ajobs.workers()}
