"""Orders whose jobs join the caller's transaction, through each library; loaded by peer_headrace where it is asked."""

import sqlite3
from typing import Any
from urllib.parse import urlsplit

import orders
import orders_psycopg
import peerlib as lib
import psycopg
import pymysql
import sqlalchemy
from sqlalchemy.orm import Session

from headrace import Headrace


class Plain(orders.Shop):
    """A connection of a library without an event loop."""

    insert = "insert into orders values (%s, '9.90')"

    def __init__(self, app: Headrace, task: Any) -> None:
        self.app, self.task = app, task

    def connect(self) -> Any:
        """The library's connection."""
        raise NotImplementedError

    def open(self) -> None:
        """Connect, and make all tables."""
        self.app.jobs.queues()
        self.connection = self.connect()
        self.run(orders.TABLE)
        self.commit()

    def run(self, statement: str, *values: Any) -> None:
        """One statement."""
        self.connection.execute(statement, values)

    def values(self, statement: str) -> list[Any]:
        """The first column."""
        cursor = self.connection.cursor()
        cursor.execute(statement)
        return [row[0] for row in cursor.fetchall()]

    def order(self, number: int) -> None:
        """Store one order."""
        self.run(self.insert, number)

    def join(self, number: int) -> None:
        """Enqueue its job in the transaction."""
        self.task.using(transaction=self.connection).enqueue(order_id=number)

    def commit(self) -> None:
        """End the transaction."""
        self.connection.commit()

    def enqueue(self, number: int) -> None:
        """Enqueue its job by headrace's own connection."""
        self.task.enqueue(order_id=number)

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()
        self.app.close()


class Sqlite3(Plain):
    """The standard library's."""

    insert = "insert into orders values (?, '9.90')"

    def connect(self) -> Any:
        """A connection that begins nothing by itself."""
        return sqlite3.connect(lib.SQLITE_PATH, isolation_level=None)

    def order(self, number: int) -> None:
        """Store one order."""
        self.run("begin immediate")
        super().order(number)


class Psycopg(Plain):
    """psycopg's Connection."""

    def connect(self) -> Any:
        """It begins by itself."""
        return psycopg.connect(lib.POSTGRES_URL)


class PyMySQL(Plain):
    """PyMySQL's connection."""

    def connect(self) -> Any:
        """It begins by itself."""
        parts = urlsplit(lib.MYSQL_URL)
        words = {"user": parts.username, "password": parts.password, "database": parts.path[1:]}
        return pymysql.connect(host=parts.hostname, port=parts.port or 3306, **words)

    def run(self, statement: str, *values: Any) -> None:
        """One statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)


class AlchemySession(Plain):
    """SQLAlchemy's Session on psycopg: a job wakes a worker once the session has been committed."""

    insert = "insert into orders values (:number, '9.90')"

    def connect(self) -> Any:
        """A session, as a request has one."""
        self.engine = sqlalchemy.create_engine(lib.POSTGRES_URL.replace("postgresql:", "postgresql+psycopg:"))
        return Session(self.engine)

    def run(self, statement: str, *values: Any) -> None:
        """One statement."""
        self.connection.execute(sqlalchemy.text(statement), {"number": values[0]} if values else {})

    def values(self, statement: str) -> list[Any]:
        """The first column."""
        return list(self.connection.execute(sqlalchemy.text(statement)).scalars())

    def close(self) -> None:
        """Disconnect."""
        super().close()
        self.engine.dispose()


class AsyncPsycopg(orders_psycopg.Shop):
    """psycopg's AsyncConnection."""

    def __init__(self, app: Headrace, task: Any) -> None:
        self.app, self.task = app, task

    async def open(self) -> None:
        """Connect, and make all tables."""
        await self.app.ajobs.queues()
        await super().open()

    async def join(self, number: int) -> None:
        """Enqueue its job in the transaction."""
        await self.task.using(transaction=self.connection).aenqueue(order_id=number)

    async def enqueue(self, number: int) -> None:
        """Enqueue its job by headrace's own connection."""
        await self.task.aenqueue(order_id=number)

    async def close(self) -> None:
        """Disconnect."""
        await super().close()
        await self.app.aclose()


PLAIN: dict[str, type[Plain]] = {
    "sqlite3": Sqlite3,
    "psycopg": Psycopg,
    "pymysql": PyMySQL,
    "session": AlchemySession,
}


def sell(app: Headrace, task: Any, count: str, way: str, library: str) -> dict[str, float]:
    """The answer of the command `orders`."""
    if library == "psycopg-async":
        return orders_psycopg.measured(AsyncPsycopg(app, task), count, way)
    return {"n": int(count), "seconds": orders.sell(PLAIN[library](app, task), int(count), way)}
