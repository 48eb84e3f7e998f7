"""Workers and producers whose only way to PostgreSQL is a PgBouncer in transaction mode."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.drivers.postgres import PostgresDriver
from headrace.errors import StoreUnavailable
from headrace.stores.postgres import PostgresStore
from tests.process.apps.scene import Settings
from tests.process.redis_jobs import enqueue, job, repeat
from tests.process.workers import crew
from tests.servers import PgBouncerServer, find_pgbouncer, private_directory
from tests.waiting import await_until, wait_until
from tests.worker.working import working

Factory = Callable[..., PgBouncerServer]


@pytest.fixture
def make_pooler(pgbouncer_server: PgBouncerServer, postgres_url: str) -> Iterator[Factory]:
    """A pooler of the test's own, to be killed and frozen; the shared one says whether there is a program at all."""
    binary = find_pgbouncer()
    assert binary is not None
    with private_directory("pgbouncer") as directory:
        server = PgBouncerServer(binary, directory, postgres_url)
        yield server.start
        server.stop()


def open_driver(url: str, name: str, options: str = "") -> PostgresDriver:
    return PostgresDriver(url + options, PostgresStore(prefix=f"{name}_"))


def test_processes_work_on_while_the_pooler_dies_and_comes_back(
    make_pooler: Factory, tmp_path: Path, unique_name: str
) -> None:
    """B128. Nothing is lost, and the death of a pooler is no crash of a job."""
    pooler = make_pooler()
    settings = Settings(url=pooler.url, name=unique_name, folder=str(tmp_path), lease=2.0, heartbeat=0.5)
    with crew(settings) as workers:
        for _ in range(2):
            workers.start()
        before = [found.id for found in workers.tasks.quick.enqueue_many([{"number": n} for n in range(50)])]
        workers.wait_for("done", 50)
        pooler.kill()
        pooler.restart()
        after = wait_until(lambda: _enqueued(workers.app, workers.tasks.quick), 20)
        workers.wait_for("done", 51)
        counts = Counter(str(note["job"]) for note in workers.scene.notes("done"))
        assert set(counts) == {*before, after}
        wait_until(lambda: not any(view.running for view in workers.app.jobs.queues()), 20)
        assert workers.app.jobs.list("failed").jobs == ()
        for worker in workers.all:
            worker.stop()


def _enqueued(app: Headrace, task: object) -> str | None:
    try:
        return str(task.enqueue(number=1).id)  # type: ignore[attr-defined]  # a task
    except StoreUnavailable:
        return None


async def test_a_worker_is_woken_round_the_pooler(pgbouncer_url: str, unique_name: str) -> None:
    """The listener's own address: a pooler would forget who listens."""
    driver = open_driver(pgbouncer_url, unique_name)
    await driver.arun(ops.Prepare())
    wakeup = driver.wakeup("w", ["q"])
    assert await wakeup.wait(20)  # it listens now
    await driver.arun(enqueue(job("a")))
    assert await wakeup.wait(20)
    await wakeup.aclose()
    await driver.aclose()


async def test_without_a_way_round_jobs_are_found_by_polling(
    pgbouncer_server: PgBouncerServer, unique_name: str
) -> None:
    done: list[int] = []
    app = Headrace(f"{pgbouncer_server.plain_url}?pgbouncer=1", name=unique_name)

    @app.task(name="t")
    async def t(n: int) -> None:
        done.append(n)

    async with working(app):
        await t.aenqueue(1)
        await await_until(lambda: done == [1], 20)
    await app.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_pooler_without_a_free_session_keeps_nobody_waiting_for_ever(
    colour: str, make_pooler: Factory, unique_name: str
) -> None:
    """Somebody's long transaction has the only session. And nothing of the waiting one is carried out later."""
    pooler = make_pooler(default_pool_size=1)
    patient = open_driver(pooler.url, unique_name)  # tables take their time; a cancelled request may keep the session
    await patient.arun(ops.Prepare())
    await patient.aclose()
    driver = open_driver(pooler.url, unique_name, "&timeout=0.5")

    async def run(operation: object) -> object:
        if colour == "async":
            return await driver.arun(operation)  # type: ignore[type-var]  # any operation
        return await asyncio.to_thread(driver.run, operation)

    await run(ops.Prepare())
    with psycopg.connect(pooler.plain_url, prepare_threshold=None) as other:
        other.execute("select 1")
        with pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s"):
            await run(enqueue(job("a")))
    assert (await repeat(run, enqueue(job("b"))))[0].status == "new"
    assert await run(ops.Get("a")) is None
    await driver.aclose()


async def test_a_frozen_pooler_keeps_nobody_waiting(make_pooler: Factory, unique_name: str) -> None:
    """B127."""
    pooler = make_pooler()
    driver = open_driver(pooler.url, unique_name, "&timeout=0.5&connect_timeout=2")
    await driver.arun(enqueue(job("a")))
    pooler.freeze()
    with pytest.raises(StoreUnavailable):
        await driver.arun(enqueue(job("b")))
    pooler.thaw()
    assert (await repeat(driver.arun, enqueue(job("b"))))[0].status in {"new", "exists"}
    await driver.aclose()


def test_startup_parameters_that_a_pooler_refuses_are_not_sent(pgbouncer_server: PgBouncerServer) -> None:
    """`options` among them; without `pgbouncer=1` the pooler says so itself."""
    listen = quote("postgresql://elsewhere", safe="")
    driver = open_driver(pgbouncer_server.plain_url, "never", "")
    with pytest.raises(StoreUnavailable, match="unsupported startup parameter"):
        driver.run(ops.Workers())
    parameters = open_driver(pgbouncer_server.plain_url, "never", f"?pgbouncer=1&listen={listen}").address.connecting()
    assert "options" not in parameters
