"""Runs plans on a connection that somebody else has opened, inside the transaction that they are in.

Nothing is begun, committed, set or repeated here, and no setting of the connection is changed. What is handed over is
recognised by the modules of its classes, so that no library is imported that the caller does not use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.drivers.borrowed.connections import Asyncmy, AsyncPsycopg, Psycopg, PyMySQL, SQLite3
from headrace.drivers.borrowed.loan import Loan, Rows, SQLStore
from headrace.errors import ConfigError

__all__ = ["Loan", "Rows", "SQLStore", "attend", "borrow"]

UNDERSTOOD = (
    "a SQLAlchemy Session, AsyncSession, Connection or AsyncConnection, a connection of sqlite3, psycopg, PyMySQL or "
    "asyncmy, or the alias of a database of Django"
)


def borrow(thing: Any) -> Loan:
    """The transaction that `thing` is in, checked.

    Raises:
        ConfigError: it is none that we understand, or in no transaction.
    """
    loan = _recognised(thing)
    loan.check()
    return loan


def attend(thing: Any) -> Loan:
    """The same for those who only wait for the commit, whatever database it is one of.

    Raises:
        ConfigError: it is none that we understand, or nothing will be committed.
    """
    loan = _recognised(thing)
    loan.check_commit()
    return loan


def _recognised(thing: Any) -> Loan:
    for kind in type(thing).__mro__:
        place = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if place in _KINDS:
            return _KINDS[place](thing)
    raise ConfigError(f"transaction is of type {type(thing).__module__}.{type(thing).__name__}: hand over {UNDERSTOOD}")


def _alchemy(thing: Any) -> Loan:
    from headrace.drivers.borrowed.alchemy import Alchemy  # noqa: PLC0415 - only where SQLAlchemy is used

    return Alchemy(thing)


def _async_alchemy(thing: Any) -> Loan:
    from headrace.drivers.borrowed.alchemy import AsyncAlchemy  # noqa: PLC0415

    return AsyncAlchemy(thing)


def _django(thing: str) -> Loan:
    from headrace.drivers.borrowed.django import Django  # noqa: PLC0415 - imports Django only where it is set up

    return Django(thing)


_KINDS: dict[str, Callable[[Any], Loan]] = {
    "builtins.str": _django,
    "sqlite3.Connection": SQLite3,
    "psycopg.Connection": Psycopg,
    "psycopg.AsyncConnection": AsyncPsycopg,
    "pymysql.Connection": PyMySQL,
    "asyncmy.Connection": Asyncmy,
    "sqlalchemy.Session": _alchemy,
    "sqlalchemy.scoped_session": _alchemy,
    "sqlalchemy.Connection": _alchemy,
    "sqlalchemy.AsyncSession": _async_alchemy,
    "sqlalchemy.async_scoped_session": _async_alchemy,
    "sqlalchemy.AsyncConnection": _async_alchemy,
}
