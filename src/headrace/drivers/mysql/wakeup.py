"""The wake-up. MySQL can notify nobody, so somebody must look: of all idle workers with the same queues, one at a time.

Whoever holds a lock in the server looks every few hundredths of a second, the others wait for the lock and cost
nothing. A worker that was rung lets the next one look. Producers of this process ring its own workers at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from headrace.drivers.mysql.aline import AsyncLine
from headrace.errors import StoreError
from headrace.stores.plan import Plan

QUICK_S, SLOW_S = 0.005, 0.06  # between two looks: soon after work was found, and when there has been none for a while;
SHARE = 1 / 200  # in between it is this part of the time since: who has waited for long will not mind a little more
LONGEST_S = 1.0  # where every look finds jobs that no claim gets, since others hold them
BACKOFF_S = (0.05, 2.0)  # between attempts to connect, growing from the first to the second


class Watch(Protocol):
    """What the store offers to one who waits."""

    def enter(self) -> Plan[bool]:
        """Wait for a second for the turn to look."""
        ...

    def look(self) -> Plan[bool]:
        """Whether there is something to claim."""
        ...

    def leave(self) -> Plan[None]:
        """Let the next one look."""
        ...


class Bells:
    """The workers of this process that listen."""

    def __init__(self) -> None:
        self.listening: set[MySQLWakeup] = set()

    def ring(self) -> None:
        """Wake them all, from any thread."""
        for wakeup in list(self.listening):
            wakeup.ring()


class MySQLWakeup:
    """One worker's ear. Connects, and connects again, by itself (B026)."""

    def __init__(self, bells: Bells, watch: Callable[[], Watch], connect: Callable[[], Awaitable[AsyncLine]]) -> None:
        """`watch` makes plans for this moment, `connect` opens a connection."""
        self._bells = bells
        self._watch = watch
        self._connect = connect
        self._rung = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: AsyncLine | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._worked_at = float("-inf")
        self._vain = 0  # turns in a row that found something at the first look, and had before it
        self._failures = 0
        self._closed = False
        bells.listening.add(self)

    def ring(self) -> None:
        """Wake the waiting worker, from any thread."""
        if self._loop is None:
            self._rung.set()
        else:
            with contextlib.suppress(RuntimeError):  # its loop has been closed: nobody waits, and the job is stored
                self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, timeout: float) -> bool:
        """True when rung, False after `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + timeout
        while not self._rung.is_set() and not self._closed:
            left = until - self._loop.time()
            if left <= 0:
                return False
            if self._watcher is None or self._watcher.done():  # else it goes on from the wait before
                self._watcher = self._loop.create_task(self._turn(until))
            ear = asyncio.ensure_future(self._rung.wait())
            try:
                await asyncio.wait({ear, self._watcher}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ear.cancel()
        rung = self._rung.is_set()
        self._rung.clear()
        return rung

    async def _turn(self, until: float) -> None:
        """One turn of looking; a failure is answered with a pause, for the next one to try again."""
        try:
            if self._line is None or not self._line.usable:
                self._line = await self._connect()
            await self._look_out(self._line, until)
        except StoreError:
            self._failures += 1
            least, most = BACKOFF_S
            await asyncio.sleep(min(most, least * 2 ** min(self._failures, 10)))
        else:
            self._failures = 0

    async def _look_out(self, line: AsyncLine, until: float) -> None:
        """Look until something is there or the wait is over."""
        watch = self._watch()
        if not await self._ask(line, watch.enter()):
            return
        try:
            first = True
            loop = asyncio.get_running_loop()
            # what is there from the start and stays is being claimed by others, or cannot be; what is new is for us
            stale = await self._ask(line, watch.look())
            while (left := until - loop.time()) > 0:
                # not at once: whoever was rung before us is claiming what is there
                await asyncio.sleep(min(left, self._pause(loop.time())))
                if await self._ask(line, self._watch().look()):
                    self._vain = self._vain + 1 if first and stale else 0
                    self._worked_at = loop.time()
                    self._rung.set()
                    return
                first, self._vain = False, 0
        finally:
            if line.usable:
                await self._ask(line, watch.leave())

    def _pause(self, now: float) -> float:
        pause = min(SLOW_S, max(QUICK_S, (now - self._worked_at) * SHARE))
        return min(LONGEST_S, pause * 2.0 ** min(max(0, self._vain - 2), 10))

    @staticmethod
    async def _ask(line: AsyncLine, plan: Plan[Any]) -> Any:
        return await line.run(plan, writes=False)

    async def aclose(self) -> None:
        """Stop listening. May be called twice."""
        self._closed = True
        self._bells.listening.discard(self)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait({watcher})
            if not watcher.cancelled():
                watcher.exception()
        if self._line is not None:
            self._line.drop()
