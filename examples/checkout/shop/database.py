"""Transactions: `with database().writing() as session: ...`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.orm import Session

from headrace.contrib.sqlalchemy import READING, share_sqlite

from .models import Base
from .settings import settings

_LIBRARIES = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


class Database:
    """The shop's database: SQLite, PostgreSQL, MySQL or MariaDB, by the URL that headrace takes too."""

    def __init__(self, url: str) -> None:
        # SQLite has no row locks: a transaction that will write takes the file's only write lock at its BEGIN, and one
        # that only reads waits for nobody. `share_sqlite` sees to it. On a server it does nothing, and need not.
        self.engine = share_sqlite(create_engine(_for_sqlalchemy(url)))
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _obey_foreign_keys)

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
        with Session(self.engine.execution_options(**READING), expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def _for_sqlalchemy(text: str) -> URL:
    url = make_url(text)
    if url.drivername == "sqlite" and url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    return url.set(drivername=_LIBRARIES.get(url.drivername, url.drivername))


def _obey_foreign_keys(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON").close()


@cache
def database() -> Database:
    """The database of this process."""
    return Database(settings().database_url)
