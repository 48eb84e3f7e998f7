"""Runs the plans of the SQLite store on one file, for threads, event loops and forked children alike."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headrace.core import operations as ops
from headrace.core.parking import Unpark
from headrace.core.ringing import rings
from headrace.drivers.run import run
from headrace.drivers.sqlite.checkpoint import Checkpointer
from headrace.drivers.sqlite.connection import BUSY_S, Connection, identity
from headrace.drivers.sqlite.lane import Item, Lane, Work
from headrace.drivers.sqlite.problems import FOREIGN, may_be_foreign, translate
from headrace.drivers.sqlite.wakeup import Bell, SQLiteWakeup
from headrace.errors import ConfigError, StoreError
from headrace.stores.plan import Plan

logger = logging.getLogger("headrace.sqlite")

R = TypeVar("R")

FORK_WAIT_S = 10.0


class SQLStore(Protocol):
    """What this driver needs of its store."""

    sql: Mapping[str, str]

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of an operation."""
        ...

    def mend(self, operation: ops.Operation[Any]) -> Plan[int]:
        """Puts aside rows of other programs that may have stopped `operation`; answers how many."""
        ...


class Session:
    """What one process has open: a lane that writes, a lane that reads, and what follows a commit."""

    def __init__(self, path: Path, store: SQLStore, busy_s: float) -> None:
        self.pid = os.getpid()
        self._path = path
        self._store = store
        self._busy_s = busy_s
        self._prepared: tuple[int, int] | None = None  # the file that has our schema
        self._bell = Bell(path)
        self._checkpointer = Checkpointer(path, store.sql)
        self.write = Lane(
            "write",
            self._open_writer,
            self._translate,
            self._after_write,
            self._checkpointer.close,
            busy_s=busy_s,
        )
        self.read = Lane("read", self._open_reader, self._translate)
        # for operations on the schema itself, which must not be prepared for
        self.bare = Lane("bare", self._open_bare, self._translate, self._after_change, busy_s=busy_s)
        self.lanes = (self.bare, self.read, self.write)

    def _translate(self, error: Exception) -> Exception:
        return translate(error, self._path)

    def _open_writer(self) -> Connection:
        """A connection to a file whose schema is there and up to date."""
        connection = Connection(self._path, self._store.sql, writes=True, busy_s=self._busy_s)
        try:
            connection.begin()
            run(self._store.plan(ops.Prepare()), connection.execute)
            connection.raw.execute("commit")
        except BaseException:
            connection.close()
            raise
        self._prepared = identity(self._path)
        return connection

    def _open_bare(self) -> Connection:
        return Connection(self._path, self._store.sql, writes=True, busy_s=self._busy_s)

    def _after_change(self, connection: Connection, items: Sequence[Item[Any]]) -> None:
        """Where the schema may be another one, the next operation looks at it anew."""
        if any(isinstance(item.operation, ops.Operation) and item.operation.writes for item in items):
            self._prepared = None
            self.read.close()
            self.write.close()

    def _open_reader(self) -> Connection:
        if self._prepared is None or self._prepared != identity(self._path):
            self.write.run(None, lambda connection: None)  # opens, and so prepares, the file
        return Connection(self._path, self._store.sql, writes=False, busy_s=self._busy_s)

    def _after_write(self, connection: Connection, items: Sequence[Item[Any]]) -> None:
        rung = [item.operation for item in items if item.error is None and rings(item.operation, item.answer)]
        if rung:
            named = [queues_of(operation) for operation in rung]
            self._bell.ring(None if None in named else {queue for queues in named if queues for queue in queues})
        self._checkpointer.after_commit(connection)

    def ring(self, queues: Iterable[str]) -> None:
        """Wake the workers of these queues, from any thread."""
        with self.write.lock:
            self._bell.ring(queues)

    def close(self) -> None:
        """Close the lanes. The write lane comes last: it may be the one that folds the log."""
        self.bare.close()
        self.read.close()
        with self.write.lock:
            self._bell.close()
        self.write.close()

    def leak(self) -> None:
        """In a forked child: never use, never close what was inherited, after a fork that would not wait."""
        for lane in self.lanes:
            lane.leak()
        self._checkpointer.leak()
        self._bell.close()


def queues_of(operation: object) -> Iterable[str] | None:
    """The queues an operation may have left jobs in; None where it does not say."""
    match operation:
        case ops.Enqueue(jobs=jobs):
            return {job.queue for job in jobs}
        case ops.Settle(outcomes=outcomes):
            return {outcome.queue for outcome in outcomes}
        case ops.Claim(queues=queues) | Unpark(queues=queues):
            return queues
        case ops.Operation(rung=str(queue)):
            return (queue,)
    return None


class SQLiteDriver:
    """A SQLite file for synchronous and asynchronous callers, several threads and several processes.

    `path` is made absolute at once; the file is opened, created and brought up to date with the first operation.
    `busy_timeout` (seconds, default 5) is how long a transaction waits for other processes' transactions.

    Raises:
        ConfigError: `path` is `:memory:` or empty: each connection would have a database of its own.
    """

    def __init__(self, path: str | os.PathLike[str], store: SQLStore, *, busy_timeout: float = BUSY_S) -> None:
        if os.fspath(path) in ("", ":memory:"):
            raise ConfigError(
                "a SQLite store needs a file: use sqlite:///jobs.db, or memory:// for jobs that end with the process"
            )
        self.path = Path(path).resolve()  # SQLite puts its log beside the real file, not beside a link to it
        self.store = store
        self._busy_s = busy_timeout
        self._lock = threading.Lock()
        self._held: list[Callable[[], None]] = []
        self._current: Session | None = None
        _DRIVERS.add(self)

    def run(self, operation: ops.Operation[R]) -> R:
        """Run in this thread; other threads' operations that wait meanwhile are carried out in the same transaction."""
        lane = self._lane(operation)
        while True:
            try:
                return lane.run(operation, self._work(operation))
            except FOREIGN as error:
                if not may_be_foreign(error) or not self._mended(lane.run(None, self._mend(operation))):
                    raise

    async def arun(self, operation: ops.Operation[R]) -> R:
        """Run in the lane's own thread, one hop for the whole operation. A cancelled caller leaves it to finish."""
        lane = self._lane(operation)
        while True:
            try:
                return await lane.arun(operation, self._work(operation))
            except FOREIGN as error:
                if not may_be_foreign(error) or not self._mended(await lane.arun(None, self._mend(operation))):
                    raise

    def _lane(self, operation: ops.Operation[Any]) -> Lane:
        session = self._session()
        if not operation.needs_schema:
            return session.bare
        return session.write if operation.writes else session.read

    def _work(self, operation: ops.Operation[R]) -> Work[R]:
        return lambda connection: run(self.store.plan(operation), connection.execute)

    def _mend(self, operation: ops.Operation[Any]) -> Work[int]:
        """What stopped `operation` may be a row that another program wrote; nobody reads them before that."""
        mends = operation.writes and operation.needs_schema
        return lambda connection: run(self.store.mend(operation), connection.execute) if mends else 0

    def _mended(self, rows: int) -> bool:
        if rows:
            logger.warning("%s: %d rows that another program wrote cannot be used and were put aside", self.path, rows)
        return rows > 0

    def _session(self) -> Session:
        """This process's own: handles are never used across a fork (B121, B133)."""
        session = self._current
        if session is None or session.pid != os.getpid():
            with self._lock:
                session = self._current
                if session is None or session.pid != os.getpid():
                    session = self._current = Session(self.path, self.store, self._busy_s)
        return session

    def wakeup(self, worker: str, queues: Sequence[str]) -> SQLiteWakeup:
        """A socket beside the file that is rung by whoever leaves jobs in `queues`."""
        return SQLiteWakeup(self.path, queues, self._version)

    async def _version(self) -> int:
        """A number that every commit of any connection changes. An outage is waited out, as the port asks."""
        try:
            return await self._session().read.arun(None, data_version)
        except StoreError:
            return 0

    def ring(self, queues: list[str]) -> None:
        """Wake the workers of these queues, after somebody else's commit."""
        self._session().ring(queues)

    def describe(self) -> str:
        """The address."""
        return f"sqlite:///{self.path}"

    def close(self) -> None:
        """Carry out what waits, then close all handles of this process. Used again, the driver opens again."""
        session, self._current = self._current, None
        if session is not None and session.pid == os.getpid():
            session.close()

    async def aclose(self) -> None:
        """The same without blocking the loop."""
        await asyncio.to_thread(self.close)

    # -- forks: SQLite keeps what it knows of locks in memory, so a child of a process that has the file open would
    # believe in locks that it does not hold (B133). At the moment of a fork no connection of ours is open.

    def before_fork(self) -> None:
        """Let what is under way finish, close the connections, and start nothing new."""
        if self._lock.acquire(timeout=FORK_WAIT_S):
            self._held.append(self._lock.release)
        session = self._current
        for lane in session.lanes if session else ():
            if lane.stop(FORK_WAIT_S):
                self._held.append(lane.go_on)
            else:
                logger.warning("a fork could not wait for %s any longer: the child may find the file locked", self.path)

    def after_fork(self) -> None:
        """In the parent: go on."""
        for let_go in reversed(self._held):
            let_go()
        self._held = []

    def forked(self) -> None:
        """In the child: start anew."""
        session, self._current = self._current, None
        self._lock, self._held = threading.Lock(), []
        if session is not None:
            session.leak()


def data_version(connection: Connection) -> int:
    """SQLite's counter of commits by other connections."""
    return int(connection.raw.execute("pragma data_version").fetchone()[0])


_DRIVERS: weakref.WeakSet[SQLiteDriver] = weakref.WeakSet()
_forking: list[SQLiteDriver] = []


def _before_fork() -> None:
    _forking[:] = sorted(_DRIVERS, key=id)
    for driver in _forking:
        driver.before_fork()


def _after_fork() -> None:
    for driver in reversed(_forking):
        driver.after_fork()
    _forking.clear()


def _forked() -> None:
    for driver in _forking:
        driver.forked()
    _forking.clear()


def _at_exit() -> None:
    """Fold the log and take it away, also for those who forgot to close."""
    for driver in list(_DRIVERS):
        driver.close()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forked)
