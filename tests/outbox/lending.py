"""Runs plans on a connection of the test's own, inside its transaction: what an application does, with no help."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from headrace.core.operations import Operation
from headrace.drivers.paramstyle import pyformat
from headrace.drivers.run import run
from headrace.stores.plan import Statement, Step


class Store(Protocol):
    sql: Any

    def plan(self, operation: Operation[Any]) -> Any: ...


class Connection:
    """A connection with a transaction open; `table` is for the application's own rows."""

    def __init__(self, raw: Any, execute: Callable[[Step], Any], begin: str) -> None:
        self.raw = raw
        self._execute = execute
        self._begin = begin

    def begin(self) -> None:
        self.ask(self._begin)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.raw.cursor()
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []

    def run(self, store: Store, operation: Operation[Any]) -> Any:
        """Carry out an operation here. Nothing is committed."""
        return run(store.plan(operation), self._execute)

    def close(self) -> None:
        self.raw.close()


def connect(kind: str, where: str, store: Store) -> Connection:
    """Open one. `where` is a file or a URL."""
    return {"sqlite": _sqlite, "postgres": _postgres, "mysql": _mysql}[kind](where, store)


def _sqlite(where: str, store: Store) -> Connection:
    raw = sqlite3.connect(Path(where), isolation_level=None, timeout=30, check_same_thread=False)
    raw.create_function("headrace_now", 0, lambda: time.time_ns() // 1000)

    def execute(step: Step) -> list[Any]:
        assert isinstance(step, Statement)
        if step.many is not None:
            raw.executemany(store.sql[step.sql], step.many)
            return []
        return raw.execute(store.sql[step.sql], step.params or {}).fetchall()

    return Connection(raw, execute, "begin immediate")


def _postgres(where: str, store: Store) -> Connection:
    import psycopg

    raw = psycopg.connect(where, autocommit=True)

    def execute(step: Step) -> list[Any]:
        assert isinstance(step, Statement)
        assert step.many is None
        cursor = raw.execute(pyformat(store.sql[step.sql]).encode(), step.params)
        return cursor.fetchall() if cursor.description else []

    return Connection(raw, execute, "begin")


def _mysql(where: str, store: Store) -> Connection:
    import pymysql

    from headrace.drivers.mysql.address import parse
    from headrace.drivers.mysql.text import Texts

    address = parse(where)
    arguments = {name: value for name, value in address.arguments().items() if value is not None}
    raw = pymysql.connect(**{**arguments, "autocommit": True, "charset": "utf8mb4"})
    texts = Texts(store.sql)

    def execute(step: Step) -> list[Any]:
        cursor = raw.cursor()
        for packet in texts.packets(step):
            cursor.execute(packet)
        return list(cursor.fetchall()) if cursor.description else []

    return Connection(raw, execute, "begin")
