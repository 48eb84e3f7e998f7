"""Transactions of Django: an alias of DATABASES, and the `atomic()` block that this thread is in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from headrace.drivers.borrowed.loan import SNAPSHOT, Loan, Rows
from headrace.drivers.paramstyle import pyformat
from headrace.errors import ConfigError, StoreUnavailable, WrongColour

DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres", "mysql": "mysql"}  # MariaDB calls itself mysql here


class Django(Loan):
    """The connection that Django has for an alias in this thread.

    Statements go through Django's own cursors: they stand in its query log, pass through its `execute_wrapper`, and
    fail with its errors.

    Raises:
        ConfigError: Django is not set up, or has no database of that alias, or has it on one that we do not know.
    """

    def __init__(self, alias: str) -> None:
        if not _is_set_up():
            raise ConfigError(
                f"transaction is {alias!r}: a text is the alias of a database of Django, and Django is not set up in "
                "this process (django.setup())"
            )
        from django.db import connections  # noqa: PLC0415 - only where Django is used

        if alias not in connections:
            raise ConfigError(
                f"transaction is {alias!r}: there is no such alias in DATABASES ({', '.join(connections)})"
            )
        self.alias = alias
        super().__init__(connections[alias])
        vendor = self.thing.vendor
        if vendor not in DIALECTS:
            raise ConfigError(f"the database {alias!r} is of {vendor}: use one of SQLite, PostgreSQL, MySQL, MariaDB")
        self.dialect = DIALECTS[vendor]

    def check(self) -> None:
        """Outside of `atomic()` Django commits each statement; and a block that has failed only rolls back."""
        if _in_event_loop():
            raise WrongColour(
                f"a transaction of Django on {self.alias!r} would block the event loop: call `enqueue(...)` and its "
                "like from a plain function, in the same sync_to_async(...) as the atomic() block"
            )
        if not self.thing.in_atomic_block:
            raise ConfigError(
                f"the database {self.alias!r} is in no transaction here (autocommit), so the job would be stored "
                f"whatever becomes of your data: use `with transaction.atomic(using={self.alias!r}):`"
            )
        if self.thing.needs_rollback:
            raise ConfigError(
                f"the atomic() block on {self.alias!r} has failed, so it can only be rolled back: let its exception "
                "leave the block before you enqueue"
            )

    @property
    def place(self) -> str | None:
        """As the library beneath knows it: psycopg, for PostgreSQL 18 and later."""
        if self.dialect != "postgres":
            return None
        found: str | None = self.thing.connection.info.parameter_status("search_path")
        return found

    def query(self, text: str, params: Any) -> Rows:
        """On a cursor of Django's."""
        from django.db.utils import OperationalError  # noqa: PLC0415

        if self.dialect == "sqlite":
            text = _for_django(text, many=isinstance(params, list))
        with self.thing.cursor() as cursor:
            try:
                (cursor.executemany if isinstance(params, list) else cursor.execute)(text, params)
            except OperationalError as error:
                if getattr(error.__cause__, "sqlite_errorcode", None) == SNAPSHOT:
                    raise StoreUnavailable(
                        f"another connection has written since this transaction began to read ({error}): set "
                        f'"transaction_mode": "IMMEDIATE" in the OPTIONS of the database {self.alias!r}'
                    ) from error
                raise
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def on_commit(self, action: Callable[[], None]) -> bool:
        """Django forgets it where the savepoint that we are in is rolled back."""
        # robust: the commit has succeeded, so what others have registered must be called, whatever becomes of ours
        self.thing.on_commit(action, robust=True)
        return True


def _is_set_up() -> bool:
    conf = sys.modules.get("django.conf")
    return conf is not None and bool(conf.settings.configured)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@cache
def _for_django(text: str, *, many: bool) -> str:
    """Django's SQLite takes what PostgreSQL's library takes, and turns it back; our rows are bound by position."""
    return text.replace("%", "%%") if many else pyformat(text)
