"""Transactions: `with database().writing() as session: ...`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.orm import Session

from .models import Base
from .settings import settings

_READING = {"checkout_reading": True}
_LIBRARIES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


class Database:
    """The shop's database: SQLite, PostgreSQL, MySQL or MariaDB, by the URL that headrace takes too."""

    def __init__(self, url: str) -> None:
        self.engine = create_engine(_for_sqlalchemy(url))
        if self.engine.dialect.name == "sqlite":
            _control_sqlite_transactions(self.engine)

    def create_tables(self) -> None:
        """Create what is missing."""
        Base.metadata.create_all(self.engine)

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back if an exception leaves it."""
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One transaction that only reads, and on SQLite waits for no writer."""
        with Session(self.engine.execution_options(**_READING), expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def _for_sqlalchemy(text: str) -> URL:
    url = make_url(text)
    if url.drivername == "sqlite" and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return url.set(drivername=_LIBRARIES.get(url.drivername, url.drivername))


def _control_sqlite_transactions(engine: Engine) -> None:
    """Begin as the shop says, not as the driver guesses.

    SQLite has no row locks. A transaction that will write takes the database's only write lock at BEGIN; taken
    later, two transactions that have both read could never both go on, and one would fail with "database is locked".
    """

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver issues no BEGIN of its own
        # The jobs are in the same file, and headrace folds its log in a way that is safe with every version of SQLite.
        pragmas = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "wal_autocheckpoint = 0")
        for pragma in (*pragmas, "busy_timeout = 10000"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        reading = connection.get_execution_options().get("checkout_reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


@cache
def database() -> Database:
    """The database of this process."""
    return Database(settings().database_url)
