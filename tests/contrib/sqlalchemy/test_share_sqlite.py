"""An engine that shares a file with the jobs begins at once, reads without waiting, and folds no log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace import Headrace
from headrace.contrib.sqlalchemy import READING, share_sqlite


@pytest.fixture
def app(sqlite_path: Path) -> Iterator[Headrace]:
    with Headrace(f"sqlite:///{sqlite_path}", busy_timeout=0.5) as app:

        @app.task(name="mail")
        def mail(order_id: int) -> None:
            """Never run here."""

        mail.enqueue(0)
        yield app


@pytest.fixture
def engine(sqlite_path: Path, app: Headrace) -> Iterator[Engine]:
    engine = share_sqlite(create_engine(f"sqlite:///{sqlite_path}", connect_args={"timeout": 0.1}))
    with engine.begin() as connection:
        connection.execute(text("create table orders (number integer)"))
    yield engine
    engine.dispose()


def test_a_transaction_that_reads_first_can_write(app: Headrace, engine: Engine) -> None:
    """B132: without this, others' writes in between would leave it with nothing but an error."""
    mail = app.tasks["mail"]
    with Session(engine) as session:
        assert session.execute(text("select count(*) from headrace_jobs")).scalar() == 1
        session.execute(text("insert into orders values (1)"))
        job = mail.using(transaction=session).enqueue(1)
        session.commit()
    assert job.id in {found.id for found in app.jobs.list("ready").jobs}


def test_two_writers_take_turns_and_readers_do_not_wait(engine: Engine) -> None:
    reading = engine.execution_options(**READING)
    with Session(engine) as writer, Session(reading) as reader:
        writer.execute(text("insert into orders values (1)"))
        assert reader.execute(text("select count(*) from orders")).scalar() == 0
        with Session(engine) as other, pytest.raises(OperationalError, match="locked"):
            other.execute(text("select 1"))
        writer.commit()
        assert reader.execute(text("select count(*) from orders")).scalar() == 0  # its own moment
        reader.commit()
        assert reader.execute(text("select count(*) from orders")).scalar() == 1


def test_the_log_is_left_to_headrace(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(text("pragma wal_autocheckpoint")).scalar() == 0


def test_autocommit_stays_autocommit(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("insert into orders values (1)"))
        with engine.begin() as other:
            other.execute(text("insert into orders values (2)"))
    with engine.begin() as connection:
        assert connection.execute(text("select count(*) from orders")).scalar() == 2


def test_savepoints(engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("insert into orders values (1)"))
        undone = session.begin_nested()
        session.execute(text("insert into orders values (2)"))
        undone.rollback()
        session.commit()
        assert session.execute(text("select number from orders")).all() == [(1,)]


def test_the_asynchronous_library_too(app: Headrace, sqlite_path: Path) -> None:
    async def main() -> Any:
        engine = share_sqlite(share_sqlite(create_async_engine(f"sqlite+aiosqlite:///{sqlite_path}")))
        async with AsyncSession(engine) as session:
            await session.execute(text("select count(*) from headrace_jobs"))
            with (
                pytest.raises(OperationalError, match="locked"),
                create_engine(f"sqlite:///{sqlite_path}", connect_args={"timeout": 0.1}).begin() as other,
            ):
                other.execute(text("create table others (number integer)"))
            await app.tasks["mail"].using(transaction=session).aenqueue(1)
            await session.commit()
        await engine.dispose()
        return await app.ajobs.list("ready")

    assert len(asyncio.run(main()).jobs) == 2


def test_another_database_is_left_as_it_is() -> None:
    engine = create_engine("postgresql+psycopg://localhost/shop")
    assert share_sqlite(engine) is engine
    assert not engine.dispatch.begin
