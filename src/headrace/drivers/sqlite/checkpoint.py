"""Folds the write-ahead log back into the file, in the one way that is safe on every SQLite version.

SQLite before 3.51.3 has a race (the "WAL-reset bug"): while one connection copies the log into the file, another
may commit, find the log fully copied and start it anew; the first then notes frames of the new log as copied that
are not, and pages are lost. Only a writer can start the log anew. So we copy while we hold the write lock: one
connection has an empty IMMEDIATE transaction open while a second one of ours runs a passive checkpoint. Nobody can
write meanwhile, and two such checkpoints exclude each other. `docs/decisions/0002-sqlite-wal.md` has the argument.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping
from io import FileIO
from pathlib import Path

from headrace.drivers.sqlite.connection import Connection
from headrace.drivers.sqlite.problems import is_busy

LOG_FRAMES = 1_000  # fold when the log holds this many pages: some milliseconds of copying
LOG_HEADER = struct.Struct(">8xI4x8s8x")  # page size, salts
FRAME_HEADER = struct.Struct(">8x8s8x")  # salts


class Log:
    """The log's file, looked at from outside: how long it is in truth.

    The file does not shrink when the log starts anew (extending it again would cost a third of the throughput), so
    its size is only an upper bound. Frames of the current run carry the salts of the file's header.
    This file may be opened and closed at will: SQLite's locks lie on the database and its index.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + "-wal")

    def frames(self) -> int:
        """How many frames the log holds; an estimate, for others may be writing."""
        try:
            with FileIO(self._path) as file:
                return self._count(file)
        except FileNotFoundError:
            return 0

    def _count(self, file: FileIO) -> int:
        """Search for the first frame of an older run."""
        page, salts = LOG_HEADER.unpack(self._read(file, 0, LOG_HEADER.size))
        first, last = 0, (file.seek(0, 2) - LOG_HEADER.size) // (FRAME_HEADER.size + page)
        while first < last:
            middle = (first + last) // 2
            offset = LOG_HEADER.size + middle * (FRAME_HEADER.size + page)
            if FRAME_HEADER.unpack(self._read(file, offset, FRAME_HEADER.size))[0] == salts:
                first = middle + 1
            else:
                last = middle
        return first

    @staticmethod
    def _read(file: FileIO, offset: int, size: int) -> bytes:
        """Padded with zeros where the file ends, which match no run."""
        file.seek(offset)
        return (file.read(size) or b"").ljust(size, b"\0")


class Checkpointer:
    """Watches the length of the log after commits. Used under the write lane's lock only."""

    def __init__(self, path: Path, sql: Mapping[str, str]) -> None:
        self._path = path
        self._sql = sql
        self._log = Log(path)
        self._commits = 0  # until the next look
        self._due = LOG_FRAMES
        self._second: Connection | None = None

    def after_commit(self, guard: Connection) -> None:
        """Fold when the log is long. A commit writes ten frames or so: looks come often enough, and cost little."""
        self._commits -= 1
        if self._commits > 0:
            return
        frames = self._log.frames()
        if frames < LOG_FRAMES:
            self._due = LOG_FRAMES
        elif frames >= self._due:
            whole = self.fold(guard)
            # a reader may still need the rest: come back when the log has grown by as much again
            self._due = LOG_FRAMES if whole else frames + LOG_FRAMES
        self._commits = max(1, min(20, (self._due - frames) // 50))

    def fold(self, guard: Connection) -> bool:
        """Copy the log while `guard` keeps all writers out. False when something is left, or another process writes."""
        second = self._opened(guard)
        if second is None:
            return False
        try:
            guard.raw.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        try:
            busy, frames, folded = second.raw.execute("pragma wal_checkpoint(passive)").fetchone()
        finally:
            guard.rollback()
        return bool(not busy and frames == folded)

    def _opened(self, guard: Connection) -> Connection | None:
        """The second connection, on the very file that `guard` keeps writers out of. None while that cannot be had.

        The path may have come to name another file since either was opened: copying one file's log under the lock of
        another protects nobody, and the log of the file in use would never be folded.
        """
        if self._second is not None and self._second.file != guard.file:
            self.close()
        if self._second is None:
            self._second = Connection(self._path, self._sql, writes=True)
        return self._second if self._second.file == guard.file else None

    def close(self) -> None:
        """Close the second connection."""
        second, self._second = self._second, None
        if second is not None:
            second.close()

    def leak(self) -> None:
        """In a forked child."""
        if self._second is not None:
            self._second.leak()
