"""The clock, the ids and the randomness of the outside world. Everything else is handed these."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import weakref

from headrace.core.ids import uuid7, uuid7s


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Seconds; only differences mean anything."""
        return time.monotonic()

    def unix_us(self) -> int:
        """Microseconds since the epoch, as this machine believes. Leases and due times use the store's clock."""
        return time.time_ns() // 1000

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


class IdMaker:
    """Makes UUIDv7 ids that grow with each call, also when the clock steps back. Safe for threads and forks."""

    __slots__ = ("__weakref__", "_clock", "_last", "_lock", "_random")

    def __init__(self, clock: SystemClock | None = None, rng: random.Random | None = None) -> None:
        self._clock = clock or SystemClock()
        # Not the module's generator: a program that seeds it would make the same ids in each of its processes.
        self._random = rng or random.Random()
        self._last = 0
        self._lock = threading.Lock()
        _makers.add(self)

    def __call__(self) -> str:
        """A new id."""
        with self._lock:
            first = self._take(1)
            bits = self._random.getrandbits(62)
        return uuid7(first, bits)

    def many(self, count: int) -> list[str]:
        """So many new ids, at least one, neighbours in the order of ids."""
        with self._lock:
            first = self._take(count)
            bits = self._random.getrandbits(64 * count)
        return uuid7s(first, count, bits)

    def _take(self, count: int) -> int:
        """The first of so many microseconds that no id has yet."""
        first = max(self._clock.unix_us(), self._last + 1)
        self._last = first + count - 1
        return first

    def renew(self) -> None:
        """In a forked child: a lock nobody holds (B121) and randomness of its own."""
        self._lock = threading.Lock()
        self._random = random.Random()


_makers: weakref.WeakSet[IdMaker] = weakref.WeakSet()


def _renew_all() -> None:
    for maker in list(_makers):
        maker.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)  # once: a hook can never be taken away


def this_process() -> str:
    """Who asks and reports outside of workers: host and process."""
    return f"{socket.gethostname()}-{os.getpid()}"
