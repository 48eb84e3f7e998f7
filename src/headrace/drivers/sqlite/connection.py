"""Opens connections with the settings that our promises rest on, and begins transactions patiently."""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.drivers.sqlite.problems import check_place, is_busy
from headrace.errors import StoreMisconfigured
from headrace.stores.plan import Statement, Step

BUSY_S = 5.0  # how long a transaction waits for the lock; a lease must be at least three times this (3b.15)
_ATTEMPT_S = 0.0  # no waiting inside SQLite, whose looks get rare: up to 100 ms between two
_LONGEST_PAUSE_S = 0.005
_immortal: list[object] = []


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _readable(text: bytes) -> str:
    """For those who look: text that another program wrote in another encoding must not hide a whole page of jobs."""
    return text.decode(errors="replace")


def now_us() -> int:
    """The store's clock: microseconds since the epoch."""
    return time.time_ns() // 1000


class Connection:
    """One SQLite connection. Not thread-safe by itself: its lane holds a lock."""

    def __init__(self, path: Path, sql: Mapping[str, str], *, writes: bool, busy_s: float = BUSY_S) -> None:
        check_place(path)
        self.path = path
        self._sql = sql
        self.writes = writes
        self.busy_s = busy_s
        self.raw = sqlite3.connect(
            path,
            timeout=_ATTEMPT_S if writes else busy_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            self._set_up()
            self.file = identity(path)
        except BaseException:
            self.raw.close()
            raise

    def _set_up(self) -> None:
        self.raw.create_function("headrace_now", 0, now_us)
        patiently(self._write_ahead, self.busy_s)
        for pragma in (
            "pragma synchronous = full",  # an acknowledged enqueue survives a power cut
            "pragma wal_autocheckpoint = 0",  # see checkpoint.py: only under the write lock
            "pragma mmap_size = 0",  # a mapped file shows torn pages to a process that missed a checkpoint
            "pragma temp_store = memory",
            "pragma cache_size = -4000",  # KiB: a drain is no quicker with more
            "pragma journal_size_limit = 33554432",  # bytes: a log that a long reader let grow shrinks again
            "pragma trusted_schema = off",
        ):
            self.raw.execute(pragma)
        if not self.writes:
            self.raw.execute("pragma query_only = on")
            self.raw.text_factory = _readable

    def _write_ahead(self) -> None:
        """The mode is kept in the file; changing it needs the file for a moment, with nobody else in it."""
        mode = self.raw.execute("pragma journal_mode = wal").fetchone()[0]
        if mode != "wal":
            raise StoreMisconfigured(
                f"this file system allows no write-ahead log (journal_mode stays {mode}): use a local disk"
            )

    def begin(self, patience_s: float | None = None) -> None:
        """Open a transaction: IMMEDIATE where it may write, so that no lock is ever upgraded (B132).

        Waits for the lock for `patience_s` seconds, by default as long as for everything.
        """
        if self.writes:
            patiently(lambda: self.raw.execute("begin immediate"), self.busy_s if patience_s is None else patience_s)
        else:
            self.raw.execute("begin")

    def execute(self, step: Step) -> list[tuple[Any, ...]]:
        """Run one step of a plan; the rows it answers."""
        assert isinstance(step, Statement)
        text = self._sql[step.sql]
        if step.many is not None:
            self.raw.executemany(text, step.many)
            return []
        return self.raw.execute(text, step.params or {}).fetchall()

    def rollback(self) -> None:
        """Undo, if there is something to undo: some errors end the transaction by themselves."""
        if self.raw.in_transaction:
            self.raw.execute("rollback")

    def is_current(self) -> bool:
        """Whether the path still names the file that this connection has open."""
        return identity(self.path) == self.file

    def close(self) -> None:
        """Close the handle. The last one on a file folds the log into it, alone by SQLite's own lock.

        It then deletes the log by its name. Where the path names another file by now, that log is not ours.
        """
        if self.is_current():
            self.raw.close()
        else:
            self.leak()

    def leak(self) -> None:
        """Keep this handle from ever being closed in this process: after a fork, not even that is safe (B133)."""
        keep_for_ever(self.raw)


def patiently(attempt: Callable[[], object], busy_s: float) -> None:
    """Repeat `attempt` while another connection holds the lock, for at most `busy_s` seconds, with jittered pauses."""
    give_up = time.monotonic() + busy_s
    pause = 0.0005
    while True:
        try:
            attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > give_up:
                raise
            time.sleep(pause * (0.25 + random.random()))
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        else:
            return


def keep_for_ever(thing: object) -> None:
    """Never free `thing`, not even when the interpreter ends."""
    _immortal.append(thing)
    if sys.implementation.name == "cpython":
        import ctypes  # noqa: PLC0415 - only a forked child needs it

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
