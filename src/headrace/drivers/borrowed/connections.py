"""Transactions of the database libraries themselves. None of them is imported unless the caller uses it."""

from __future__ import annotations

from typing import Any

from headrace.drivers.borrowed.loan import SNAPSHOT, Loan, Rows, stale
from headrace.errors import ConfigError

IN_TRANSACTION = 1  # SERVER_STATUS_IN_TRANS of MySQL's protocol


class SQLite3(Loan):
    """A connection of the standard library."""

    dialect = "sqlite"
    fix = 'execute "BEGIN IMMEDIATE" first'

    def check(self) -> None:
        """One that commits each statement would store the job at once, or half of it."""
        connection = self.thing
        if not connection.in_transaction and (
            connection.isolation_level is None or getattr(connection, "autocommit", None) is True
        ):
            raise _no_transaction(self.fix)

    def query(self, text: str, params: Any) -> Rows:
        """On a cursor of our own: plans read rows by position, whatever the caller's rows look like."""
        cursor = self.thing.cursor()
        cursor.row_factory = None
        try:
            (cursor.executemany if isinstance(params, list) else cursor.execute)(text, params)
        except self.thing.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) == SNAPSHOT:
                raise stale(error) from error
            raise
        return cursor.fetchall() if cursor.description else []


class Psycopg(Loan):
    """A synchronous connection of psycopg 3."""

    dialect = "postgres"
    fix = "use `with connection.transaction():`, or autocommit=False"

    def check(self) -> None:
        """PostgreSQL does nothing more in a transaction in which a statement has failed."""
        from psycopg.pq import TransactionStatus  # noqa: PLC0415 - the caller has it

        status = self.thing.info.transaction_status
        if status == TransactionStatus.INERROR:
            raise ConfigError("a statement of this transaction has failed, so it can only be rolled back")
        if status == TransactionStatus.IDLE and self.thing.autocommit:
            raise _no_transaction(self.fix)

    def query(self, text: str, params: Any) -> Rows:
        """On a cursor of our own."""
        from psycopg.rows import tuple_row  # noqa: PLC0415

        with self.thing.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(text, params)
            return cursor.fetchall() if cursor.description else []

    @property
    def place(self) -> str | None:
        """PostgreSQL 18 and later report every change."""
        found: str | None = self.thing.info.parameter_status("search_path")
        return found


class AsyncPsycopg(Psycopg):
    """An asynchronous one."""

    awaited = True

    async def aquery(self, text: str, params: Any) -> Rows:
        """On a cursor of our own."""
        from psycopg.rows import tuple_row  # noqa: PLC0415

        async with self.thing.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(text, params)
            return await cursor.fetchall() if cursor.description else []


class PyMySQL(Loan):
    """A connection of PyMySQL."""

    dialect = "mysql"
    fix = "call connection.begin(), or open it with autocommit=False"

    def check(self) -> None:
        """One that commits each statement would store the job at once, or half of it."""
        if self.thing.get_autocommit() and not self.thing.server_status & IN_TRANSACTION:
            raise _no_transaction(self.fix)

    def query(self, text: str, params: Any) -> Rows:
        """On a cursor of our own."""
        from pymysql.cursors import Cursor  # type: ignore[import-untyped]  # noqa: PLC0415 - the caller has it

        with self.thing.cursor(Cursor) as cursor:
            cursor.execute(text, params)
            return list(cursor.fetchall())


class Asyncmy(PyMySQL):
    """A connection of asyncmy."""

    awaited = True

    async def aquery(self, text: str, params: Any) -> Rows:
        """On a cursor of our own."""
        from asyncmy.cursors import Cursor  # noqa: PLC0415 - the caller has it

        async with self.thing.cursor(Cursor) as cursor:
            await cursor.execute(text, params)
            return list(await cursor.fetchall())


def _no_transaction(fix: str) -> ConfigError:
    return ConfigError(
        f"the connection is in no transaction, so the job would be stored whatever becomes of yours: {fix}"
    )
