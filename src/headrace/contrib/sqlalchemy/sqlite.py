"""Has an engine share a SQLite file with the jobs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

if TYPE_CHECKING:  # an import of it fails without greenlet, which those who await nothing need not have
    from sqlalchemy.ext.asyncio import AsyncEngine

E = TypeVar("E", Engine, "AsyncEngine")

_OPTION = "headrace_reading"

READING: Mapping[str, Any] = MappingProxyType({_OPTION: True})
"""Execution options of an engine, a session or a connection whose transactions only read: they wait for no writer."""


def share_sqlite(engine: E) -> E:
    """Set an engine up for a SQLite file that holds jobs too, and return it. Call it before the engine is used.

    - Transactions begin with BEGIN IMMEDIATE: one that begins with a read and writes later fails when others have
      written meanwhile, and no patience helps it. Those with the execution options `READING` begin plainly.
    - The library begins none by itself, and so none too late.
    - Connections do not fold the file's log: headrace does, in a way that is safe with every version of SQLite.

    An engine of another database is left as it is. A session that only reads:

        with Session(engine.execution_options(**READING)) as session: ...
    """
    inner: Any = getattr(engine, "sync_engine", engine)
    if inner.dialect.name == "sqlite" and not event.contains(inner, "connect", _connected):
        event.listen(inner, "connect", _connected)
        event.listen(inner, "begin", _begun)
    return engine


def _connected(connection: Any, record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("pragma wal_autocheckpoint = 0")
    cursor.close()


def _begun(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql("BEGIN" if options.get(_OPTION) else "BEGIN IMMEDIATE")
