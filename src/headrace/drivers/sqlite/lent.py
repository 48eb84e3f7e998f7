"""Runs a plan on a `sqlite3` connection of the caller's, inside whatever transaction it is in."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, TypeVar

from headrace.core import operations as ops
from headrace.drivers.run import run
from headrace.drivers.sqlite.connection import now_us
from headrace.drivers.sqlite.driver import SQLiteDriver
from headrace.errors import ConfigError
from headrace.stores.plan import Statement, Step

R = TypeVar("R")


def run_on(connection: sqlite3.Connection, driver: SQLiteDriver, operation: ops.Operation[R]) -> R:
    """Carry out `operation`; to commit or to roll back is left to the caller, and so is waiting for the file's lock.

    Raises:
        ConfigError: the connection has another file open, or one without our tables.
    """
    _check_file(connection, driver)
    connection.create_function("headrace_now", 0, now_us)

    def execute(step: Step) -> list[tuple[Any, ...]]:
        assert isinstance(step, Statement)
        cursor = connection.cursor()
        cursor.row_factory = None  # plans read rows by position
        text = driver.store.sql[step.sql]
        if step.many is not None:
            cursor.executemany(text, step.many)
            return []
        return cursor.execute(text, step.params or {}).fetchall()

    try:
        return run(driver.store.plan(operation), execute)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise ConfigError(f"{driver.path} has no tables of ours yet ({error}): run headrace schema --store") from error


def _check_file(connection: sqlite3.Connection, driver: SQLiteDriver) -> None:
    cursor = connection.cursor()
    cursor.row_factory = None
    files = {name: file for _, name, file in cursor.execute("pragma database_list")}
    if not files["main"] or Path(files["main"]).resolve() != driver.path:
        raise ConfigError(
            f"the connection has {files['main'] or 'no file'} open, but the app's tables are in {driver.path}: "
            "only a transaction of that file can hold them"
        )
