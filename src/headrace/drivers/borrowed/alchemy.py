"""Transactions of SQLAlchemy: a session's or a connection's, synchronous or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Session

from headrace.drivers.borrowed.loan import SNAPSHOT, Loan, Rows, stale
from headrace.errors import ConfigError

DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
DRIVERS = {"pysqlite", "aiosqlite", "psycopg", "psycopg_async", "pymysql", "asyncmy", "aiomysql", "mysqldb"}


class Alchemy(Loan):
    """A Session, scoped_session or Connection."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing() if hasattr(thing, "registry") else thing)
        bind = self.thing if isinstance(self.thing, Connection) else self.thing.get_bind()
        self._engine = getattr(bind, "engine", bind)
        dialect = self._engine.dialect
        if dialect.name not in DIALECTS or dialect.driver not in DRIVERS:
            raise ConfigError(
                f"the engine speaks {dialect.name}+{dialect.driver}: use one of sqlite+pysqlite, sqlite+aiosqlite, "
                "postgresql+psycopg, mysql+pymysql, mysql+asyncmy"
            )
        self.dialect = DIALECTS[dialect.name]

    @property
    def home(self) -> object:
        """The engine."""
        return self._engine

    def check(self) -> None:
        """With AUTOCOMMIT there is no transaction, whatever the session believes."""
        options = [self._engine.get_execution_options()]
        if isinstance(self.thing, Connection):
            options.append(self.thing.get_execution_options())
        if any(found.get("isolation_level") == "AUTOCOMMIT" for found in options):
            raise ConfigError("the engine's isolation_level is AUTOCOMMIT, so there is no transaction to join")

    def query(self, text: str, params: Any) -> Rows:
        """On the connection that the session's transaction uses."""
        connection = self.thing if isinstance(self.thing, Connection) else self.thing.connection()
        return _query(connection, text, params)

    def on_commit(self, action: Callable[[], None]) -> bool:
        """Of a session; a bare connection tells nobody after it has committed."""
        if not isinstance(self.thing, Session):
            return False
        _listen(self.thing).append(action)
        return True


class AsyncAlchemy(Alchemy):
    """An AsyncSession, async_scoped_session or AsyncConnection."""

    awaited = True

    def __init__(self, thing: Any) -> None:
        self._outer = thing() if hasattr(thing, "registry") else thing
        is_connection = isinstance(self._outer, AsyncConnection)
        inner = self._outer.sync_connection if is_connection else self._outer.sync_session
        if inner is None:
            raise ConfigError("the AsyncConnection has not been started: use `async with engine.connect() as ...`")
        super().__init__(inner)

    async def aquery(self, text: str, params: Any) -> Rows:
        """On the connection that the session's transaction uses."""
        outer = self._outer
        connection = outer if isinstance(outer, AsyncConnection) else await outer.connection()
        rows: Rows = await connection.run_sync(_query, text, params)
        return rows


def _query(connection: Connection, text: str, params: Any) -> Rows:
    try:
        result = connection.exec_driver_sql(text, params)
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", None) == SNAPSHOT:
            raise stale(error) from error
        raise
    return [tuple(row) for row in result] if result.returns_rows else []


_actions: WeakKeyDictionary[Session, list[Callable[[], None]]] = WeakKeyDictionary()


def _listen(session: Session) -> list[Callable[[], None]]:
    """What is to be done once this session's transaction has been committed."""
    if session not in _actions:
        _actions[session] = []
        event.listen(session, "after_commit", _committed)
        event.listen(session, "after_rollback", _rolled_back)
    return _actions[session]


def _committed(session: Session) -> None:
    if session.in_nested_transaction():  # a savepoint that is released: nothing is certain yet
        return
    actions, _actions[session][:] = list(_actions[session]), []
    for action in actions:
        action()


def _rolled_back(session: Session) -> None:
    if not session.in_nested_transaction():
        _actions[session].clear()
