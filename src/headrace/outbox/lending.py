"""Where an operation of the outbox runs: in the caller's own transaction, or in one of the store's driver."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeVar

from headrace.core.operations import Operation
from headrace.core.ports import Driver
from headrace.errors import ConfigError

R = TypeVar("R")


def run_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """Run on the caller's connection, and leave the commit to the caller. None: in a transaction of its own.

    Raises:
        ConfigError: it is no connection to the database with the outbox.
    """
    return driver.run(operation) if session is None else _lent(session, driver, operation)


async def arun_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """The same, awaited."""
    return await driver.arun(operation) if session is None else _lent(session, driver, operation)


def _lent(session: Any, driver: Driver, operation: Operation[R]) -> R:
    if isinstance(session, sqlite3.Connection):
        from headrace.drivers.sqlite import SQLiteDriver  # noqa: PLC0415 - other apps do without
        from headrace.drivers.sqlite.lent import run_on  # noqa: PLC0415

        if isinstance(driver, SQLiteDriver):
            return run_on(session, driver, operation)
    raise ConfigError(
        f"{type(session).__module__}.{type(session).__name__} is no connection to {driver.describe()} that can be "
        "lent: give a sqlite3.Connection of that file, or None for a transaction of its own"
    )
