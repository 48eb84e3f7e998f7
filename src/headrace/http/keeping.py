"""Keeps records held while handlers run, and stores ends that the store did not take at first.

One of these serves all requests of a middleware: `TaskKeeper` on event loops, `ThreadKeeper` with a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from weakref import WeakSet

from headrace.core.once_records import EndOnce
from headrace.core.ports import Driver
from headrace.errors import StoreError
from headrace.http.current import IdempotentRequest

logger = logging.getLogger("headrace.http")

LOST = "the lease of an Idempotency-Key was over while its handler ran, and another request has it: fence %d"
# the effect has happened: a key that is free again would repeat it
REFUSED = "the store refuses the answer to an Idempotency-Key, which is done without it and cannot be replayed"
AGAIN_S = 1.0  # an end that was not stored is sent again after so long


class TaskHolding:
    """One record, renewed by the event loop that its request runs on."""

    def __init__(self, driver: Driver, request: IdempotentRequest, every_s: float) -> None:
        self._driver = driver
        self._request = request
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._over = False
        self._plan()

    def stop(self) -> None:
        """The handler is done."""
        self._over = True
        self._timer.cancel()

    def _plan(self) -> None:
        # a timer, not a task: most requests end before the first renewal
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._due)

    def _due(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        held = True
        if not self._request.begun:  # else a transaction has the record locked
            try:
                held = await self._driver.arun(self._request.renewal())
            except Exception as error:  # noqa: BLE001 - whatever it is, the handler goes on, and needs its key
                logger.warning("an Idempotency-Key could not be renewed: %s", error)
        if self._over:
            return
        if held:
            self._plan()
        else:
            logger.warning(LOST, self._request.fence)


class TaskKeeper:
    """Sends ends again, in tasks of their own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def end_later(self, driver: Driver, operation: EndOnce) -> None:
        """Until the store takes it."""
        task = asyncio.get_running_loop().create_task(self._end(driver, operation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, driver: Driver, operation: EndOnce) -> None:
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                await driver.arun(operation)
            except StoreError as error:
                logger.debug("an answer could not be stored yet: %s", error)
            else:
                return


class ThreadKeeper:
    """Renews records from one thread, which begins with the first one and lasts as long as the process."""

    def __init__(self, driver: Callable[[], Driver], every_s: float) -> None:
        self._driver = driver
        self._every_s = every_s
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        # weak: a server that has dropped an answer without closing it does not keep the key for ever
        self._held: WeakSet[IdempotentRequest] = WeakSet()
        self._ends: list[EndOnce] = []

    def hold(self, request: IdempotentRequest) -> None:
        """Renew it from now on."""
        if self._pid != os.getpid():  # a fork has the requests of its parent, but not the thread
            self._reset()
        with self._changed:
            self._held.add(request)
            self._wake()

    def drop(self, request: IdempotentRequest) -> None:
        """Its handler is done."""
        with self._changed:
            self._held.discard(request)

    def end_later(self, operation: EndOnce) -> None:
        """Until the store takes it."""
        with self._changed:
            self._ends.append(operation)
            self._hurry.set()
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headrace idempotency keys", daemon=True)
            self._thread.start()
        elif len(self._held) + len(self._ends) == 1:
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._held and not self._ends:
                    self._changed.wait()
            self._hurry.wait(min(self._every_s, AGAIN_S) if self._ends else self._every_s)
            self._hurry.clear()
            self._renew_all()
            self._end_all()

    def _renew_all(self) -> None:
        with self._changed:
            held = [request for request in self._held if not request.begun]
        for request in held:
            try:
                renewed = self._driver().run(request.renewal())
            except Exception as error:  # noqa: BLE001 - the thread serves all requests, and must go on
                logger.warning("an Idempotency-Key could not be renewed: %s", error)
                continue
            if not renewed and request in self._held:
                logger.warning(LOST, request.fence)
                self.drop(request)

    def _end_all(self) -> None:
        with self._changed:
            ends = list(self._ends)
        for operation in ends:
            try:
                self._driver().run(operation)
            except Exception as error:  # noqa: BLE001 - the same
                logger.debug("an answer could not be stored yet: %s", error)
                continue
            with self._changed:
                self._ends.remove(operation)
