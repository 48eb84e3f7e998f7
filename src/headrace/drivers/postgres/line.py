"""A line: one connection that runs plans, in both colours. Transactions begin and end here."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any, TypeVar

from psycopg.errors import UniqueViolation
from psycopg.pq import ExecStatus

from headrace.drivers.paramstyle import pyformat
from headrace.drivers.postgres.address import PINS, Address
from headrace.drivers.postgres.connection import (
    AsyncConnection,
    Connection,
    aopen_connection,
    is_idle,
    is_midway,
    open_connection,
)
from headrace.drivers.postgres.loading import load
from headrace.drivers.run import arun, run
from headrace.stores.plan import Load, Plan, Statement, Step

R = TypeVar("R")

Rows = list[tuple[Any, ...]]

NOTIFY, LISTEN = "wake.notify", "wake.listen"  # the store's statements for hints

# Whatever the server's default is: our statements look again for what others have committed meanwhile.
BEGIN = b"begin isolation level read committed"

# Only for the transaction, which is all that a pooler leaves us.
_PIN = "select " + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in PINS.items())


class Statements:
    """The store's statements as psycopg takes them."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._compiled = {name: pyformat(text).encode() for name, text in sql.items()}

    def text(self, name: str) -> bytes:
        """One that has no parameters."""
        return self._compiled[name]

    def of(self, step: Step) -> tuple[bytes, dict[str, Any]]:
        """Text and parameters of a step."""
        if not isinstance(step, Statement) or step.many is not None:
            raise TypeError(f"{step!r} is no step for PostgreSQL")
        return self._compiled[step.sql], step.params or {}


def _rows(cursor: Any) -> Rows:
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.status == ExecStatus.TUPLES_OK else []


async def _arows(cursor: Any) -> Rows:
    result = cursor.pgresult
    return await cursor.fetchall() if result is not None and result.status == ExecStatus.TUPLES_OK else []


class Line:
    """For one synchronous caller at a time."""

    def __init__(self, address: Address, statements: Statements) -> None:
        self._statements = statements
        self._pinning = address.pgbouncer
        self.connection: Connection = open_connection(address)

    def run(self, plan: Plan[R]) -> R:
        """Run a plan. Its first statement that is not complete in itself begins a transaction, its end commits it."""
        try:
            answer = run(plan, self.execute)
            if not is_idle(self.connection):
                self.connection.execute(b"commit")
        except BaseException:
            self._undo()
            raise
        return answer

    def execute(self, step: Step) -> Any:
        """Carry out one step."""
        if isinstance(step, Load):
            return self._load(step)
        query, params = self._statements.of(step)
        connection = self.connection
        alone = isinstance(step, Statement) and step.alone
        if not is_idle(connection) or (alone and not self._pinning):
            return _rows(connection.execute(query, params, binary=True))
        with connection.pipeline():  # one trip for all
            connection.execute(BEGIN)
            if self._pinning:
                connection.execute(_PIN.encode())
            cursor = connection.execute(query, params, binary=True)
            if alone:
                connection.execute(b"commit")
        return _rows(cursor)

    def _load(self, step: Load) -> bool:
        connection = self.connection
        try:
            connection.wait(load(connection.pgconn, self._statements.text(step.sql), step))
        except UniqueViolation:
            connection.execute(b"rollback to headrace")
            return False
        return True

    def notify(self, queues: list[str]) -> None:
        """Send a hint for each queue, in a transaction of its own."""
        self.execute(Statement(NOTIFY, {"queues": queues}, alone=True))

    def _undo(self) -> None:
        """Roll back; a connection that cannot, or that owes an answer, is closed."""
        if is_idle(self.connection):
            return
        if is_midway(self.connection):
            self.close()
            return
        try:
            self.connection.execute(b"rollback")
        finally:
            if not is_idle(self.connection):
                self.close()

    def usable(self) -> bool:
        """Whether nothing has happened to it while it lay idle: one that the server has closed can be read from."""
        return is_idle(self.connection) and not has_news(self.connection)

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self.connection.close()


class AsyncLine:
    """For one asynchronous caller at a time; the same."""

    def __init__(self, connection: AsyncConnection, statements: Statements, *, pinning: bool) -> None:
        self._statements = statements
        self._pinning = pinning
        self.connection = connection

    @classmethod
    async def open(cls, address: Address, statements: Statements) -> AsyncLine:
        """A new connection."""
        return cls(await aopen_connection(address), statements, pinning=address.pgbouncer)

    async def run(self, plan: Plan[R]) -> R:
        """Run a plan. Its first statement that is not complete in itself begins a transaction, its end commits it."""
        try:
            answer = await arun(plan, self.execute)
            if not is_idle(self.connection):
                await self.connection.execute(b"commit")
        except BaseException:
            await self._undo()
            raise
        return answer

    async def execute(self, step: Step) -> Any:
        """Carry out one step."""
        if isinstance(step, Load):
            return await self._load(step)
        query, params = self._statements.of(step)
        connection = self.connection
        alone = isinstance(step, Statement) and step.alone
        if not is_idle(connection) or (alone and not self._pinning):
            return await _arows(await connection.execute(query, params, binary=True))
        async with connection.pipeline():  # one trip for all
            await connection.execute(BEGIN)
            if self._pinning:
                await connection.execute(_PIN.encode())
            cursor = await connection.execute(query, params, binary=True)
            if alone:
                await connection.execute(b"commit")
        return await _arows(cursor)

    async def _load(self, step: Load) -> bool:
        connection = self.connection
        try:
            await connection.wait(load(connection.pgconn, self._statements.text(step.sql), step))
        except UniqueViolation:
            await connection.execute(b"rollback to headrace")
            return False
        return True

    async def notify(self, queues: list[str]) -> None:
        """Send a hint for each queue, in a transaction of its own."""
        await self.execute(Statement(NOTIFY, {"queues": queues}, alone=True))

    async def _undo(self) -> None:
        """Roll back; a connection that cannot, or that owes an answer, is closed."""
        if is_idle(self.connection):
            return
        if is_midway(self.connection):
            self.close()
            return
        try:
            await self.connection.execute(b"rollback")
        finally:
            if not is_idle(self.connection):
                self.close()

    def usable(self) -> bool:
        """Whether nothing has happened to it while it lay idle."""
        return is_idle(self.connection) and not has_news(self.connection)

    def close(self) -> None:
        """Close the connection, which takes no waiting. May be called twice, and after the end of its loop."""
        self.connection.pgconn.finish()


def has_news(connection: Connection | AsyncConnection) -> bool:
    """Whether an idle connection has something to read."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.pgconn.socket, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([connection.pgconn.socket], [], [], 0)[0])
