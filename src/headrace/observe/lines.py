"""Threads that work off bounded queues: whoever puts something in never waits."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

logger = logging.getLogger("headrace.alerts")

T = TypeVar("T")

IDLE_S = 30.0  # a thread with nothing to do ends after so long
SELDOM_S = 60.0  # the same trouble is logged this often at most


class Seldom:
    """Says how often something happened, at most once in `SELDOM_S`. Safe from any thread."""

    def __init__(self, seconds: float = SELDOM_S) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._next = 0.0
        self._count = 0

    def count(self) -> int:
        """It happened: how often since the last time that this was not 0, or 0 where it is too early to say so."""
        with self._lock:
            self._count += 1
            if time.monotonic() < self._next:
                return 0
            self._next = time.monotonic() + self._seconds
            count, self._count = self._count, 0
            return count


class Line(Generic[T]):
    """A queue, and a daemon thread that hands what is in it to `handle`, one after the other.

    The thread begins with the first item and ends when there has been none for a while; a forked process has its own.
    """

    def __init__(self, name: str, room: int, handle: Callable[[T], None]) -> None:
        self.name = name
        self._room = room
        self._handle = handle
        self._lock = threading.Lock()
        self._trouble = Seldom()
        self._full = Seldom()
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._process = os.getpid()
        self._items: queue.Queue[T] = queue.Queue(self._room)
        self._thread: threading.Thread | None = None

    def put(self, item: T) -> bool:
        """Whether there was room for it. Never waits."""
        with self._lock:
            if self._process != os.getpid():
                self._start_afresh()
            try:
                self._items.put_nowait(item)
            except queue.Full:
                self._say_full()
                return False
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name=f"headrace {self.name}", daemon=True)
                self._thread.start()
            return True

    def _say_full(self) -> None:
        if dropped := self._full.count():
            logger.error("%s is behind with %d alerts: %d were dropped", self.name, self._room, dropped)

    def drained(self, seconds: float) -> bool:
        """Whether everything has been handled within so long."""
        if self._process != os.getpid():
            return True
        with self._items.all_tasks_done:
            return self._items.all_tasks_done.wait_for(lambda: not self._items.unfinished_tasks, max(0.0, seconds))

    def _work(self) -> None:
        while True:
            try:
                item = self._items.get(timeout=IDLE_S)
            except queue.Empty:
                if self._ended():
                    return
                continue
            try:
                self._handle(item)
            except BaseException:  # a sink that calls sys.exit() does not end this thread either
                if times := self._trouble.count():
                    logger.exception("%s: an alert was lost (%d of late)", self.name, times)
            finally:
                self._items.task_done()

    def _ended(self) -> bool:
        with self._lock:
            if not self._items.empty():
                return False
            self._thread = None
            return True
