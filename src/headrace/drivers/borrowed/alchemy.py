"""Transactions of SQLAlchemy: a session's or a connection's, synchronous or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.util import await_only

from headrace.drivers.borrowed.connections import Asyncmy, AsyncPsycopg, Psycopg, PyMySQL, SQLite3
from headrace.drivers.borrowed.loan import SNAPSHOT, Loan, Rows, carry_out, stale
from headrace.errors import ConfigError

DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
DRIVERS = {"pysqlite", "aiosqlite", "psycopg", "psycopg_async", "pymysql", "asyncmy", "aiomysql", "mysqldb"}
LIBRARIES: dict[str, type[SQLite3 | Psycopg | PyMySQL]] = {
    "pysqlite": SQLite3,
    "aiosqlite": SQLite3,
    "psycopg": Psycopg,
    "psycopg_async": AsyncPsycopg,
    "pymysql": PyMySQL,
    "asyncmy": Asyncmy,
}


class Alchemy(Loan):
    """A Session, scoped_session or Connection."""

    def __init__(self, thing: Any) -> None:
        super().__init__(thing() if hasattr(thing, "registry") else thing)
        self._engine: Any = None
        self._checked = False

    @property
    def home(self) -> object:
        """The engine."""
        return self._engine

    @property
    def place(self) -> str | None:
        """As the library beneath knows it: psycopg, for PostgreSQL 18 and later."""
        if self.dialect != "postgres":
            return None
        connection = self.thing if isinstance(self.thing, Connection) else self.thing.connection()
        library: Any = connection.connection.driver_connection
        found: str | None = library.info.parameter_status("search_path")
        return found

    def check(self) -> None:
        """With AUTOCOMMIT there is no transaction, whatever the session believes."""
        bind = self.thing if isinstance(self.thing, Connection) else self.thing.get_bind()
        self._engine = getattr(bind, "engine", bind)
        dialect = self._engine.dialect
        if dialect.name not in DIALECTS or dialect.driver not in DRIVERS:
            raise ConfigError(
                f"the engine speaks {dialect.name}+{dialect.driver}: use one of sqlite+pysqlite, sqlite+aiosqlite, "
                "postgresql+psycopg, mysql+pymysql, mysql+asyncmy"
            )
        self.dialect = DIALECTS[dialect.name]
        options = [self._engine.get_execution_options()]
        if isinstance(self.thing, Connection):
            options.append(self.thing.get_execution_options())
        if any(found.get("isolation_level") == "AUTOCOMMIT" for found in options):
            raise ConfigError("the engine's isolation_level is AUTOCOMMIT, so there is no transaction to join")

    def check_commit(self) -> None:
        """Any session will do, whatever database it is one of: the session itself tells."""

    def query(self, text: str, params: Any) -> Rows:
        """On the connection that the session's transaction uses."""
        connection = self.thing if isinstance(self.thing, Connection) else self.thing.connection()
        return self._query(connection, text, params)

    def _query(self, connection: Connection, text: str, params: Any) -> Rows:
        if not self._checked:
            self._check_library(connection)
        try:
            result = connection.exec_driver_sql(text, params)
        except OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) == SNAPSHOT:
                raise stale(error) from error
            raise
        return [tuple(row) for row in result] if result.returns_rows else []

    def _check_library(self, connection: Connection) -> None:
        """`create_engine(isolation_level="AUTOCOMMIT")` and `connect_args` are seen only by the library beneath."""
        if not connection.in_transaction():
            connection.begin()  # as the statement itself would
        library = LIBRARIES.get(connection.dialect.driver)
        if library is not None:
            beneath = library(connection.connection.driver_connection)
            beneath.fix = "make the engine without AUTOCOMMIT or autocommit"
            beneath.check()
        self._checked = True

    def on_commit(self, action: Callable[[], None]) -> bool:
        """Of a session; a bare connection tells nobody after it has committed."""
        if not isinstance(self.thing, Session):
            return False
        _book_of(self.thing).add(action)
        return True


class AsyncAlchemy(Alchemy):
    """An AsyncSession, async_scoped_session or AsyncConnection."""

    awaited = True

    def __init__(self, thing: Any) -> None:
        self._outer = thing() if hasattr(thing, "registry") else thing
        self._session = getattr(self._outer, "sync_session", None)
        inner = self._outer.sync_connection if self._session is None else self._session
        if inner is None:
            raise ConfigError("the AsyncConnection has not been started: use `async with engine.connect() as ...`")
        super().__init__(inner)

    @property
    def name(self) -> str:
        """What the caller has handed over, in words."""
        return type(self._outer).__name__

    @property
    def place(self) -> None:
        """The connection may yet have to be opened, which has to be awaited."""
        return

    async def aquery(self, text: str, params: Any) -> Rows:
        """On the connection that the session's transaction uses."""
        outer = self._outer
        connection = outer if self._session is None else await outer.connection()
        rows: Rows = await connection.run_sync(self._query, text, params)
        return rows

    def wait(self, awaitable: Awaitable[object]) -> None:
        """SQLAlchemy calls actions from a greenlet that may await."""
        await_only(awaitable)


class _Book:
    """What is to be done after the commits of one session, by the transaction or savepoint that asked for it.

    Savepoints are transactions of their own to SQLAlchemy. What one has asked for passes to the one around it when it
    is released, and is forgotten when it ends in any other way; only what reaches the outermost one is done.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wanted: dict[SessionTransaction, list[Callable[[], None]]] = {}
        self._committed: SessionTransaction | None = None
        event.listen(session, "after_commit", self._after_commit)
        event.listen(session, "after_transaction_end", self._after_end)

    def add(self, action: Callable[[], None]) -> None:
        """For the commit of the transaction that the session is in, or of the one that it is about to begin."""
        transaction = self._current()
        if transaction is None:
            if not self._session.autobegin:
                raise ConfigError("the session has not begun a transaction: call session.begin() first")
            transaction = self._session.begin()
        self._wanted.setdefault(transaction, []).append(action)

    def _current(self) -> SessionTransaction | None:
        return self._session.get_nested_transaction() or self._session.get_transaction()

    def _after_commit(self, session: Session) -> None:
        transaction = self._current()
        if transaction is None or transaction not in self._wanted:
            return
        if not transaction.nested:
            self._committed = transaction
            return
        around = transaction.parent
        while around is not None and around.parent is not None and not around.nested:
            around = around.parent  # a marker of a flush
        if around is not None:
            self._wanted.setdefault(around, []).extend(self._wanted.pop(transaction))

    def _after_end(self, session: Session, transaction: SessionTransaction) -> None:
        """Not before: now the connection is back in its pool, and an error leaves the session in good order."""
        actions = self._wanted.pop(transaction, [])
        if transaction is self._committed:
            self._committed = None
            carry_out(actions)


def _book_of(session: Session) -> _Book:
    """The session's, kept by itself: a map of ours would keep the session from being forgotten."""
    book = session.info.get(_BOOK)
    if not isinstance(book, _Book):
        book = session.info[_BOOK] = _Book(session)
    return book


_BOOK = "headrace.after_commit"
