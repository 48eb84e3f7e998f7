"""Hundreds of stores in one database: tables under a prefix are made once, and emptied for the next test."""

import itertools
import os
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql

_LOCK_WAIT_S = 10
_TABLES = """\
select table_name from information_schema.tables
where table_type = 'BASE TABLE' and table_schema = {schema} and table_name like %s
"""


def connect(url: str) -> Any:
    """A plain connection that gives up waiting for a lock soon: whoever still holds one was closed before."""
    if not url.startswith("mysql"):
        return psycopg.connect(url, options=f"-c lock_timeout={_LOCK_WAIT_S}s")
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=parts.path[1:],
        init_command=f"set session innodb_lock_wait_timeout = {_LOCK_WAIT_S}",
    )


class Prefixes:
    """Prefixes of tables in one database, each for one store at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._schema = "database()" if url.startswith("mysql") else "current_schema()"
        self._names = (f"t{uuid.uuid4().hex[:8]}_{os.getpid()}_{number}_" for number in itertools.count())
        self._free: list[str] = []
        self._emptying: dict[str, list[str]] = {}  # statements, once they are known
        self._connection: Any = None

    def take(self) -> str:
        """A new one, whose tables are not there."""
        return next(self._names)

    def lend(self) -> tuple[str, Callable[[], None]]:
        """A prefix whose tables are empty or not there, and how to give it back, which may be called twice."""
        if self._free:
            self.wipe(prefix := self._free.pop())
        else:
            prefix = self.take()
        lent = [prefix]

        def give_back() -> None:
            if lent:
                self._free.append(lent.pop())

        return prefix, give_back

    def wipe(self, prefix: str) -> None:
        """Delete rather than truncate: it is ten times as quick where a table has ten rows."""
        try:
            self._wipe(prefix)
        except (
            psycopg.OperationalError,
            pymysql.OperationalError,
        ):  # a test has ended every connection of the server's
            self.close()
            self._wipe(prefix)

    def _wipe(self, prefix: str) -> None:
        if self._connection is None:
            self._connection = connect(self._url)
        with self._connection.cursor() as cursor:
            if not (statements := self._emptying.get(prefix)):
                statements = self._emptying[prefix] = self._find(cursor, prefix)
            for statement in statements:
                cursor.execute(statement)
        self._connection.commit()

    def _find(self, cursor: Any, prefix: str) -> list[str]:
        """What empties the tables that are there."""
        cursor.execute(_TABLES.format(schema=self._schema), (prefix.replace("_", r"\_") + "%",))
        tables = {str(row[0]) for row in cursor.fetchall()} - {f"{prefix}meta"}  # which tells of the schema
        return [f"delete from {table}" for table in sorted(tables)]

    def close(self) -> None:
        """Close the connection. Used again, it is opened again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
