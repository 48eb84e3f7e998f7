"""A lane: one connection, its lock, and the operations that wait for it.

Group commit without timers: whatever waits when a transaction begins, or arrives while it writes, is carried out in
it, each operation inside a savepoint of its own, so that an error hits its own caller only. One that only reads takes
in nobody who comes later: it sees the file as it was when it began, and he may know better. A synchronous caller
that finds the lane free carries out what waits, its own operation included; all others leave that to one thread of
the lane. Nobody queues for the lock itself, which is not fair: a heartbeat must not starve.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from headrace.drivers.sqlite.connection import BUSY_S, Connection
from headrace.drivers.sqlite.problems import is_busy
from headrace.errors import StoreUnavailable

logger = logging.getLogger("headrace.sqlite")

R = TypeVar("R")

GROUP_S = 0.005  # a transaction takes no more operations in after this long
GROUP_MOST = 64
STOP_S = 5.0

UNDONE = "the transaction was interrupted and undone: repeat the operation"
UNKNOWN = "the commit was interrupted: whether the operation took place is unknown, and repeating it is safe"

Work = Callable[[Connection], R]


class Item(Generic[R]):
    """An operation on its way through a lane."""

    __slots__ = ("answer", "done", "error", "future", "loop", "operation", "signal", "since", "work")

    def __init__(self, operation: object, work: Work[R]) -> None:
        self.operation = operation
        self.work = work
        self.since = time.monotonic()
        self.answer: R | None = None
        self.error: BaseException | None = None
        self.done = False
        self.signal = threading.Lock()  # held until the item is done
        self.signal.acquire()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[None] | None = None

    def finish(self) -> None:
        """Tell the caller, in whatever thread it waits. One that was cancelled has gone already. May be repeated."""
        self.done = True
        with contextlib.suppress(RuntimeError):  # told before
            self.signal.release()
        if self.loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody waits
                self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    def result(self) -> R:
        """The answer, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]


class Lane:
    """Runs work on one connection, one transaction at a time.

    `connect` opens the connection; `translate` puts SQLite's errors into our words; `committed` is told what has
    just been committed, `disconnect` that the connection is about to be closed, while the lane is still locked.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], Connection],
        translate: Callable[[Exception], Exception],
        committed: Callable[[Connection, Sequence[Item[Any]]], None] = lambda connection, items: None,
        disconnect: Callable[[], None] = lambda: None,
        *,
        busy_s: float = BUSY_S,
    ) -> None:
        self.lock = threading.Lock()
        self._turnstile = threading.Lock()  # on the way to the lock, so that `stop` need not compete for it
        self.connection: Connection | None = None
        self._name = name
        self._connect = connect
        self._translate = translate
        self._committed = committed
        self._disconnecting = disconnect
        self._busy_s = busy_s
        self._locked_since: float | None = None  # when the last attempt to begin was made in vain
        self._waiting: deque[Item[Any]] = deque()
        self._gate = threading.Lock()  # held for moments only, so that an event loop may take it
        self._calls: SimpleQueue[Item[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, operation: object, work: Work[R]) -> R:
        """Carry out `work` in this thread when the lane is free, else have it carried out and wait."""
        item = Item(operation, work)
        if not self._turnstile.locked() and self.lock.acquire(blocking=False):
            try:
                self._waiting.append(item)
                while not item.done:
                    self._group()
            finally:
                self.lock.release()
        else:
            self._summon(item)
            item.signal.acquire()
        return item.result()

    async def arun(self, operation: object, work: Work[R]) -> R:
        """Have `work` carried out by the lane's thread. If the caller is cancelled, it is carried out all the same."""
        item = Item(operation, work)
        item.loop = asyncio.get_running_loop()
        item.future = item.loop.create_future()
        self._summon(item)
        await item.future
        return item.result()

    def _summon(self, item: Item[Any]) -> None:
        """Leave `item` to the lane's thread: a daemon of our own, so that it keeps no process from ending."""
        with self._gate:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"headrace-sqlite-{self._name}", daemon=True)
                self._thread.start()
            self._waiting.append(item)
            self._calls.put(item)

    def close(self) -> None:
        """Carry out what waits, stop the thread and close the connection; all are there again when used again."""
        with self._gate:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._calls.put(None)
        with self.lock:
            while self._waiting:
                self._group()
            self._disconnect()
        if thread is not None:
            thread.join(STOP_S)

    def stop(self, patience_s: float) -> bool:
        """Let what is under way finish, close the connection, and begin nothing until `go_on`."""
        until = time.monotonic() + patience_s
        if not self._turnstile.acquire(timeout=patience_s):
            return False
        if not self.lock.acquire(timeout=max(0.0, until - time.monotonic())):
            self._turnstile.release()
            return False
        try:
            self._disconnect()
        except sqlite3.Error as error:
            logger.warning("a connection could not be closed: %s", error)
        return True

    def go_on(self) -> None:
        """After a `stop` that answered True."""
        self.lock.release()
        self._turnstile.release()

    def leak(self) -> None:
        """In a forked child: let go of a connection that could not be closed in time, without touching it."""
        if self.connection is not None:
            self.connection.leak()

    def _serve(self) -> None:
        while self._calls.get() is not None:
            with self._turnstile:  # whoever stops the lane goes first
                pass
            with self.lock:
                if self._waiting:  # an earlier call's group may have taken this one in
                    self._group()

    def _group(self) -> None:
        """One transaction with what waits. Called with the lock held; finishes at least the first item."""
        items = [self._waiting.popleft()]
        waited = len(self._waiting)
        interrupted = UNDONE
        try:
            connection = self._begun(items)
            # the first needs no savepoint: when it fails, the transaction has nothing else to lose
            items[0].answer = items[0].work(connection)
            self._others(connection, items, GROUP_MOST if connection.writes else min(GROUP_MOST, 1 + waited))
            interrupted = UNKNOWN
            connection.raw.execute("commit")
            for item in items:
                item.finish()
        except BaseException as error:
            self._undo(error)
            self._fail(items, self._translate(error) if isinstance(error, Exception) else StoreUnavailable(interrupted))
            if not isinstance(error, Exception):
                raise
            return
        self._tell(connection, items)

    def _begun(self, items: list[Item[Any]]) -> Connection:
        """A connection with a transaction. Where the file stays locked, `items` takes in all that have waited for it.

        Each waits for `busy_s` seconds from its arrival, not from when those before it have given up.
        """
        tried = time.monotonic()
        waited = 0.0 if self._locked_since is None else tried - max(self._locked_since, items[0].since)
        try:
            connection = self._open()
            connection.begin(max(0.0, self._busy_s - waited))
        except sqlite3.OperationalError as error:
            if is_busy(error):
                self._locked_since = self._locked_since or tried
                overdue = time.monotonic() - self._busy_s
                while self._waiting and self._waiting[0].since <= overdue:
                    items.append(self._waiting.popleft())
            raise
        self._locked_since = None
        return connection

    def _open(self) -> Connection:
        if self.connection is not None and not self.connection.is_current():
            logger.warning("%s was replaced or deleted while in use: opening it anew", self.connection.path)
            self._disconnect()
        if self.connection is None:
            self.connection = self._connect()
        return self.connection

    def _others(self, connection: Connection, items: list[Item[Any]], most: int) -> None:
        until = time.monotonic() + GROUP_S
        while self._waiting and len(items) < most and time.monotonic() < until:
            item = self._waiting.popleft()
            items.append(item)
            connection.raw.execute("savepoint headrace")
            try:
                item.answer = item.work(connection)
            except Exception as error:
                if not connection.raw.in_transaction:
                    raise  # SQLite ended the whole transaction: all that was in it has failed
                item.error = self._translate(error)
                connection.raw.execute("rollback to headrace")
            connection.raw.execute("release headrace")

    def _undo(self, error: BaseException) -> None:
        """Roll back; a connection that cannot even do that, or cannot reach its file, is given up."""
        if self.connection is None:
            return
        try:
            self.connection.rollback()
        except sqlite3.Error as second:
            logger.warning("a rollback failed: %s", second)
            self._disconnect()
        else:
            if isinstance(error, sqlite3.DatabaseError) and not is_busy(error):
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            self._disconnecting()
            connection.close()

    @staticmethod
    def _fail(items: Sequence[Item[Any]], error: Exception) -> None:
        """Each caller that has not yet heard how its operation went hears why."""
        for item in items:
            if not item.done:
                item.error = item.error or error
            item.finish()

    def _tell(self, connection: Connection, items: Sequence[Item[Any]]) -> None:
        """What follows a commit must not make it look undone."""
        try:
            self._committed(connection, items)
        except Exception as error:  # noqa: BLE001 - upkeep of the file or a lost hint; the next commit tries again
            logger.warning("after a commit: %s", self._translate(error))
