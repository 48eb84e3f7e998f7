"""Folds the write-ahead log back into the file, in the one way that is safe on every SQLite version.

SQLite before 3.51.3 has a race (the "WAL-reset bug"): while one connection copies the log into the file, another
may commit, find the log fully copied and start it anew; the first then notes frames of the new log as copied that
are not, and pages are lost. Only a writer can start the log anew. So we copy while we hold the write lock: one
connection has an empty IMMEDIATE transaction open while a second one of ours runs a passive checkpoint. Nobody can
write meanwhile, and two such checkpoints exclude each other. `docs/decisions/0002-sqlite-wal.md` has the argument.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from headrace.drivers.sqlite.connection import Connection
from headrace.drivers.sqlite.problems import is_busy

LOG_BYTES = 8 * 1024 * 1024  # about 2,000 pages: some ten milliseconds of copying


class Checkpointer:
    """Watches the size of the log after commits. Used under the write lane's lock only."""

    def __init__(self, path: Path, sql: Mapping[str, str]) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._sql = sql
        self._due_at = LOG_BYTES
        self._second: Connection | None = None

    def after_commit(self, guard: Connection) -> None:
        """Fold when the log is long. Only its size is asked for: opening the file would drop SQLite's locks on it."""
        try:
            size = os.stat(self._log).st_size
        except FileNotFoundError:
            return
        if size < LOG_BYTES:
            self._due_at = LOG_BYTES
        elif size >= self._due_at:
            whole = self.fold(guard)
            # a reader may still need the rest: come back when the log has grown by as much again
            self._due_at = LOG_BYTES if whole else size + LOG_BYTES

    def fold(self, guard: Connection) -> bool:
        """Copy the log while `guard` keeps all writers out. False when something is left, or another process writes."""
        if self._second is None:
            self._second = Connection(self._path, self._sql, writes=True)
        try:
            guard.raw.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        try:
            busy, frames, folded = self._second.raw.execute("pragma wal_checkpoint(passive)").fetchone()
        finally:
            guard.rollback()
        return bool(not busy and frames == folded)

    def close(self) -> None:
        """Close the second connection."""
        second, self._second = self._second, None
        if second is not None:
            second.close()

    def leak(self) -> None:
        """In a forked child."""
        if self._second is not None:
            self._second.leak()
