"""Jobs on Redis, data in a database: the job is a row of the outbox, and the relay carries it over."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.errors import ConfigError


@pytest.fixture
def app(redis_url: str, sqlite_path: Path, unique_name: str) -> Iterator[Headrace]:
    app = Headrace(redis_url, name=unique_name, outbox=f"sqlite:///{sqlite_path}")
    app.outbox.view()  # makes the tables
    yield app
    app.close()


@pytest.fixture
def task(app: Headrace) -> Task[..., Any]:
    @app.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    return mail


@pytest.fixture
def connection(sqlite_path: Path, app: Headrace) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(sqlite_path, isolation_level=None)
    connection.execute("create table orders (number integer)")
    connection.execute("begin immediate")
    yield connection
    connection.close()


def relay(app: Headrace) -> None:
    async def once() -> None:
        await app.relay(once=True).run()
        await app.aclose()

    asyncio.run(once())


def test_a_committed_job_is_carried_over(app: Headrace, task: Task[..., Any], connection: sqlite3.Connection) -> None:
    connection.execute("insert into orders values (1)")
    job = task.using(transaction=connection).enqueue(1)
    assert (job.status, job.pending) == ("new", True)
    assert not app.jobs.list("ready").jobs
    connection.execute("commit")
    relay(app)
    assert [found.id for found in app.jobs.list("ready").jobs] == [job.id]
    assert task.enqueue(1).id == job.id


def test_a_rolled_back_one_is_not(app: Headrace, task: Task[..., Any], connection: sqlite3.Connection) -> None:
    task.using(transaction=connection).enqueue(1)
    connection.execute("rollback")
    relay(app)
    assert not app.jobs.list("ready").jobs
    assert task.enqueue(1).status == "new"


def test_without_an_outbox_it_is_refused(redis_url: str, unique_name: str, connection: sqlite3.Connection) -> None:
    app = Headrace(redis_url, name=unique_name)

    @app.task(name="mail")
    def mail(order_id: int) -> None:
        """Never run here."""

    with pytest.raises(ConfigError, match='outbox="postgresql://'):
        mail.using(transaction=connection).enqueue(1)
    app.close()
