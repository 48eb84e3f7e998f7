"""Programs with a database of their own, each through another library: what they do is written once."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
from asyncmy import connect as asyncmy_connect
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headrace import Task
from tests.contrib.django.inside import add, remove


class Caller:
    """One connection or session, in one transaction after the other."""

    awaited = False

    def __init__(self, url: str, table: str) -> None:
        self.url = url
        self.table = table
        self.runner = asyncio.Runner()
        self.handle: Any = self.do(self.connect())

    def do(self, outcome: Any) -> Any:
        """The value, also of a coroutine."""
        return self.runner.run(outcome) if isinstance(outcome, Coroutine) else outcome

    def connect(self) -> Any:
        raise NotImplementedError

    def execute(self, statement: str) -> Any:
        """In the transaction; begins one where the library does not do so by itself."""
        raise NotImplementedError

    def order(self, number: int) -> None:
        self.do(self.execute(f"insert into {self.table} (number) values ({number})"))

    def enqueue(self, task: Task[..., Any], *args: Any, **options: Any) -> Any:
        using = task.using(transaction=self.handle, **options)
        return self.do(self._aenqueue(using, args)) if self.awaited else using.enqueue(*args)

    @staticmethod
    async def _aenqueue(task: Task[..., Any], args: tuple[Any, ...]) -> Any:
        return await task.aenqueue(*args)

    def savepoint(self) -> None:
        self.do(self.execute("savepoint inner_one"))

    def back_to_savepoint(self) -> None:
        self.do(self.execute("rollback to savepoint inner_one"))

    def commit(self) -> None:
        self.do(self.handle.commit())

    def rollback(self) -> None:
        self.do(self.handle.rollback())

    def close(self) -> None:
        self.do(self.handle.close())
        self.runner.close()


class PlainSQLite(Caller):
    def connect(self) -> Any:
        connection = sqlite3.connect(self.url, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    def execute(self, statement: str) -> Any:
        if not self.handle.in_transaction:
            self.handle.execute("begin immediate")
        self.handle.execute(statement)


class Psycopg(Caller):
    def connect(self) -> Any:
        return psycopg.connect(self.url, row_factory=psycopg.rows.dict_row)

    def execute(self, statement: str) -> Any:
        self.handle.execute(statement)


class AsyncPsycopg(Caller):
    awaited = True

    async def connect(self) -> Any:
        return await psycopg.AsyncConnection.connect(self.url)

    def execute(self, statement: str) -> Any:
        return self.handle.execute(statement)


class PooledPsycopg(Psycopg):
    """Behind a pooler, which knows nothing of prepared statements; `url` is headrace's."""

    def connect(self) -> Any:
        return psycopg.connect(self.url.partition("?")[0], prepare_threshold=None)


class PyMySQL(Caller):
    def connect(self) -> Any:
        return pymysql.connect(**server(self.url), cursorclass=pymysql.cursors.DictCursor)

    def execute(self, statement: str) -> Any:
        with self.handle.cursor() as cursor:
            cursor.execute(statement)


class Asyncmy(Caller):
    awaited = True

    async def connect(self) -> Any:
        return await asyncmy_connect(**server(self.url))

    async def execute(self, statement: str) -> Any:
        async with self.handle.cursor() as cursor:
            await cursor.execute(statement)

    async def _closed(self) -> None:
        await self.handle.ensure_closed()

    def close(self) -> None:
        self.runner.run(self._closed())
        self.runner.close()


class AlchemySession(Caller):
    """SQLAlchemy's ORM; `url` names the library too."""

    def connect(self) -> Any:
        self.engine = create_engine(self.url)
        return Session(self.engine)

    def execute(self, statement: str) -> Any:
        self.handle.execute(text(statement))

    def savepoint(self) -> None:
        self.inner = self.handle.begin_nested()

    def back_to_savepoint(self) -> None:
        self.inner.rollback()

    def close(self) -> None:
        super().close()
        self.engine.dispose()


class PooledSession(AlchemySession):
    """Behind a pooler."""

    def connect(self) -> Any:
        url = through(self.url.partition("?")[0], "postgresql+psycopg")
        self.engine = create_engine(url, connect_args={"prepare_threshold": None})
        return Session(self.engine)


class AlchemyConnection(AlchemySession):
    """SQLAlchemy's Core."""

    def connect(self) -> Any:
        self.engine = create_engine(self.url)
        return self.engine.connect()


class AlchemyAsyncSession(Caller):
    awaited = True

    async def connect(self) -> Any:
        self.engine = create_async_engine(self.url)
        return AsyncSession(self.engine)

    def execute(self, statement: str) -> Any:
        return self.handle.execute(text(statement))

    def savepoint(self) -> None:
        async def begin() -> Any:
            return await self.handle.begin_nested()

        self.inner = self.do(begin())

    def back_to_savepoint(self) -> None:
        self.do(self.inner.rollback())

    async def _closed(self) -> None:
        await self.handle.close()
        await self.engine.dispose()

    def close(self) -> None:
        self.runner.run(self._closed())
        self.runner.close()


class AlchemyAsyncConnection(AlchemyAsyncSession):
    async def connect(self) -> Any:
        self.engine = create_async_engine(self.url)
        return await self.engine.connect()


class Django(Caller):
    """A Django alias, and the atomic() block that is open on it."""

    def connect(self) -> Any:
        add(self.table, self.url)  # the table's name is the test's own, and so is the alias
        self.blocks: list[Any] = []
        self.thread = threading.current_thread()
        return self.table

    def execute(self, statement: str) -> Any:
        from django.db import connections

        if not self.blocks:
            self.savepoint()
        with connections[self.handle].cursor() as cursor:
            cursor.execute(statement)

    def savepoint(self) -> None:
        from django.db import transaction

        self.blocks.append(transaction.atomic(using=self.handle))
        self.blocks[-1].__enter__()

    def back_to_savepoint(self) -> None:
        self.blocks.pop().__exit__(KeyError, KeyError("as the caller's own code may raise"), None)

    def commit(self) -> None:
        from django.db import connections

        while self.blocks:
            self.blocks.pop().__exit__(None, None, None)
        if threading.current_thread() is not self.thread:  # each has a connection of its own
            connections[self.handle].close()

    def rollback(self) -> None:
        while self.blocks:
            self.back_to_savepoint()

    def close(self) -> None:
        self.rollback()
        remove(self.handle)
        self.runner.close()


def server(url: str) -> dict[str, Any]:
    """What the libraries for MySQL take."""
    parts = urlsplit(url)
    return {
        "host": parts.hostname,
        "port": parts.port,
        "user": parts.username,
        "password": parts.password or "",
        "database": parts.path.strip("/"),
    }


def through(url: str, library: str) -> str:
    """A URL as SQLAlchemy takes it."""
    return f"{library}{url[url.index(':') :]}"


KINDS: dict[str, tuple[str, Callable[[str, str], Caller]]] = {
    "sqlite3": ("sqlite", PlainSQLite),
    "session-pysqlite": ("sqlite", lambda url, table: AlchemySession(f"sqlite:///{url}", table)),
    "connection-pysqlite": ("sqlite", lambda url, table: AlchemyConnection(f"sqlite:///{url}", table)),
    "session-aiosqlite": ("sqlite", lambda url, table: AlchemyAsyncSession(f"sqlite+aiosqlite:///{url}", table)),
    "psycopg": ("postgres", Psycopg),
    "psycopg-async": ("postgres", AsyncPsycopg),
    "session-psycopg": ("postgres", lambda url, table: AlchemySession(through(url, "postgresql+psycopg"), table)),
    "connection-psycopg": (
        "postgres",
        lambda url, table: AlchemyConnection(through(url, "postgresql+psycopg"), table),
    ),
    "session-psycopg-async": (
        "postgres",
        lambda url, table: AlchemyAsyncSession(through(url, "postgresql+psycopg"), table),
    ),
    "connection-psycopg-async": (
        "postgres",
        lambda url, table: AlchemyAsyncConnection(through(url, "postgresql+psycopg"), table),
    ),
    "psycopg-pgbouncer": ("pgbouncer", PooledPsycopg),
    "session-pgbouncer": ("pgbouncer", PooledSession),
    "django-sqlite": ("sqlite", Django),
    "django-psycopg": ("postgres", Django),
    "django-pymysql": ("mysql", Django),
    "pymysql": ("mysql", PyMySQL),
    "asyncmy": ("mysql", Asyncmy),
    "session-pymysql": ("mysql", lambda url, table: AlchemySession(through(url, "mysql+pymysql"), table)),
    "session-asyncmy": ("mysql", lambda url, table: AlchemyAsyncSession(through(url, "mysql+asyncmy"), table)),
}
