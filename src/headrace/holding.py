"""Holders of once records by lease: a block of `app.once`, or a request with an Idempotency-Key.

One thread for each store renews what code in this process holds, and sends ends again that the store did not take. It
uses the driver's synchronous side for coroutines too, as a worker's heartbeat does, so that code which blocks the
event loop does not cost the lease (B040). Code that holds the interpreter's lock longer than the lease still does.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Protocol
from weakref import WeakKeyDictionary, WeakSet

from headrace.core.once_records import EndOnce, OnceClaim, RenewOnce
from headrace.core.operations import OnceEnd
from headrace.core.ports import Driver
from headrace.errors import ConfigError, HeadraceError, InvalidArguments, LeaseLost, StoreError

logger = logging.getLogger("headrace")

RENEWALS = 3  # in each lease: two may be lost before the lease is
AGAIN_S = 1.0  # an end that was not stored is sent again after so long
IDLE_S = 10.0  # a thread with nothing to do ends after so long
MOMENT_S = 0.25  # how long a caller waits for its record to be given back, where its own transaction may lock it
LOST = "the lease of %s was over while its code ran, and another has it: fence %d"
# the effect has happened: a key that is free again would repeat it
REFUSED = "the store refuses what came of %s, which is done without it: it cannot be replayed"
NEVER = float("inf")

# one for all: it is held for moments only. The collector may close a coroutine, and with it a holding, in any of them
_lock = threading.RLock()


class Holding:
    """A record that is this process's own, as long as its lease is renewed. Safe from any thread.

    `name`, as in "the once key 'k'", is for messages. `taken_at`: when it was asked for, on `time.monotonic`.
    """

    def __init__(self, driver: Driver, claim: OnceClaim, fence: int, name: str, taken_at: float) -> None:
        self._driver = driver
        self._claim = claim
        self._renewed_at = taken_at
        self._begun = False
        self._closed = False
        self.taken = False  # by somebody else, for certain
        self.name = name
        self.fence = fence
        self.lost = False  # somebody else has the record, or nobody has answered for a lease
        self._due = taken_at + self._pause_s

    @property
    def _pause_s(self) -> float:
        return self._claim.lease_us / RENEWALS / 1_000_000

    @property
    def _is_ending(self) -> bool:
        return self._begun or self._closed

    @property
    def due(self) -> float:
        """When it is to be renewed, on `time.monotonic`."""
        return NEVER if self._closed or self.taken else self._due

    @property
    def is_over(self) -> bool:
        """Whether the lease is, unless it has been renewed by somebody whose answer was lost."""
        return time.monotonic() - self._renewed_at >= self._claim.lease_us / 1_000_000

    def start(self) -> None:
        """Renew it from now on, as long as somebody refers to this."""
        _keeper_of(self._driver).hold(self)

    def close(self) -> bool:
        """Renew it no more, and let no transaction end it from here on. Whether one may have ended it."""
        with _lock:
            self._closed = True
            return self._begun

    def renew(self) -> None:
        """Ask for one more lease, which may also be had when the last one is over and nobody else has come."""
        sent = time.monotonic()
        self._due = sent + self._pause_s
        if self._is_ending:  # whoever wants the key waits for that transaction, lease or not
            return
        claim = self._claim
        try:
            mine = self._driver.run(RenewOnce(claim.scope, claim.key, claim.owner, claim.lease_us))
        except Exception as error:  # noqa: BLE001 - whatever it is, the code that holds it goes on, and needs it
            logger.warning("%s could not be renewed: %s", self.name, error)
            self.lost = self.is_over
            return
        if mine:
            self._renewed_at, self.lost = sent, False
        elif not self._is_ending:  # else it has ended meanwhile
            self.lost = self.taken = True
            logger.warning(LOST, self.name, self.fence)

    # -- its end

    def end(self, state: Literal["done", "failed", "free"], result: bytes | None, keep_us: int) -> EndOnce:
        """What ends it. To give back what is done does nothing."""
        claim = self._claim
        return EndOnce(claim.owner, OnceEnd(claim.scope, claim.key, self.fence, state, result, keep_us))

    @contextmanager
    def ending(self) -> Iterator[None]:
        """For a transaction of the caller's. From before its first statement on, the record may have ended.

        Raises:
            LeaseLost: it has been ended otherwise.
        """
        with _lock:
            before, self._begun = self._begun, True
            if self._closed:
                self._begun = before
                raise LeaseLost(f"{self.name} has been ended already: roll back")
        try:
            yield
        except (ConfigError, InvalidArguments, LeaseLost):  # nothing was changed
            self._begun = before
            raise

    def check(self, ended: bool) -> None:  # noqa: FBT001 - the store's answer
        """Whether the record could be ended.

        Raises:
            LeaseLost: it could not, for it is another's.
        """
        if not ended:
            self.lost = self.taken = True
            raise LeaseLost(f"{self.name} is not held any more: its lease was over and another has it: roll back")

    def end_later(self, *ends: EndOnce) -> None:
        """Send the first of `ends` again until the store takes it; where it is refused for good, the next one."""
        _keeper_of(self._driver).end_later(LateEnd(self._driver, self.name, ends))

    def end_aside(self, end: EndOnce) -> threading.Thread:
        """Send `end` once, in a thread: a transaction of the caller's that is open may keep it waiting.

        It changes nothing after a commit. Where the thread fails, the lease ends by itself.
        """
        thread = threading.Thread(target=self._try, args=(end,), name="headrace-once", daemon=True)
        thread.start()
        return thread

    def _try(self, end: EndOnce) -> None:
        try:
            self._driver.run(end)
        except Exception as error:  # noqa: BLE001 - there is nobody else to tell
            logger.warning("%s could not be given back, and is left to its lease: %s", self.name, error)


class LateEnd:
    """An end that the store did not take at first: the effect has happened, so it is sent again."""

    def __init__(self, driver: Driver, name: str, ends: tuple[EndOnce, ...]) -> None:
        self._driver = driver
        self._name = name
        self._ends = list(ends)

    def send(self) -> bool:
        """Whether that was all."""
        while self._ends:
            end = self._ends[0]
            try:
                held = self._driver.run(end)
            except HeadraceError as error:
                if isinstance(error, StoreError):
                    logger.debug("the end of %s could not be stored yet: %s", self._name, error)
                    return False
                logger.exception(REFUSED, self._name)
                self._ends.pop(0)
            except Exception as error:  # noqa: BLE001 - the thread serves all, and must go on
                logger.warning("the end of %s could not be stored yet: %s", self._name, error)
                return False
            else:
                if not held:
                    logger.warning(LOST, self._name, end.end.fence)
                return True
        return True


class Renewed(Protocol):
    """Something that is held by a lease."""

    @property
    def due(self) -> float:
        """When it is to be renewed, on `time.monotonic`. `NEVER`: not any more."""
        ...

    def renew(self) -> None:
        """Ask for one more lease. Never raises."""
        ...


class Keeper:
    """A thread that renews records and sends late ends, as long as there are some."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wakes_at = NEVER
        # weak: a server that has dropped an answer without closing it does not keep the key for ever, and what has
        # ended needs not be taken out
        self._held: WeakSet[Renewed] = WeakSet()
        self._ends: list[LateEnd] = []
        self._ends_at = NEVER

    def hold(self, holding: Renewed) -> None:
        """Renew it from now on."""
        with self._changed:
            self._held.add(holding)
            self._wake(holding.due)

    def end_later(self, end: LateEnd) -> None:
        """Until the store takes it."""
        with self._changed:
            self._ends.append(end)
            self._ends_at = min(self._ends_at, time.monotonic() + AGAIN_S)
            self._wake(self._ends_at)

    def _wake(self, due: float) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headrace-once-keeper", daemon=True)
            self._thread.start()
        elif due < self._wakes_at:  # else most would wake it for nothing: they end before their first renewal
            self._changed.notify()

    def _work(self) -> None:
        while self._wait():
            self._renew_due()
            self._end_due()

    def _wait(self) -> bool:
        """Until something is due. False: there was nothing for a while, and the thread ends."""
        with self._changed:
            while (due := self._next()) > (now := time.monotonic()):
                self._wakes_at = due
                told = self._changed.wait(min(due - now, IDLE_S))
                if not told and due == NEVER and self._next() == NEVER:
                    self._thread = None
                    return False
            return True

    def _next(self) -> float:
        return min(self._ends_at, min((holding.due for holding in self._held), default=NEVER))

    def _renew_due(self) -> None:
        now = time.monotonic()
        with self._changed:
            due = [holding for holding in self._held if holding.due <= now]
        for holding in due:
            holding.renew()

    def _end_due(self) -> None:
        with self._changed:
            ends = list(self._ends) if self._ends_at <= time.monotonic() else []
        if not ends:
            return
        stored = [end for end in ends if end.send()]
        with self._changed:
            self._ends = [end for end in self._ends if end not in stored]
            self._ends_at = time.monotonic() + AGAIN_S if self._ends else NEVER


_keepers: WeakKeyDictionary[Driver, Keeper] = WeakKeyDictionary()


def _keeper_of(driver: Driver) -> Keeper:
    with _lock:
        keeper = _keepers.get(driver)
        if keeper is None:
            keeper = _keepers[driver] = Keeper()
        return keeper


def renewed(driver: Driver, one: Renewed) -> None:
    """Renew it from now on, as long as somebody refers to it."""
    _keeper_of(driver).hold(one)


def _forked() -> None:
    """A child has what its parent holds, but not the threads that renew it, nor those that would let go of locks."""
    global _lock, _keepers
    _lock, _keepers = threading.RLock(), WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
