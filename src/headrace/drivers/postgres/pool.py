"""Idle lines, the one used last on top: for the threads of a process, and for the coroutines of an event loop.

Nothing runs in the background here: a line that lay idle is looked at before it is used, and a new one is opened by
whoever needs it, so that its error reaches the one who asked. A pool belongs to a process and, the other, to a loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque

from headrace.drivers.postgres.address import Address
from headrace.drivers.postgres.line import AsyncLine, Line, Statements
from headrace.errors import StoreUnavailable


def _crowded(address: Address) -> StoreUnavailable:
    return StoreUnavailable(
        f"all {address.pool_size} connections to {address} were in use for {address.timeout:g} s: raise pool_size"
    )


class Pool:
    """For threads."""

    def __init__(self, address: Address, statements: Statements) -> None:
        self._address = address
        self._statements = statements
        self._room = threading.Semaphore(address.pool_size)
        self._idle: deque[Line] = deque()

    def take(self, *, urgent: bool = False) -> Line:
        """A line that works. An urgent caller does not wait for room: a heartbeat must not starve.

        Raises:
            StoreUnavailable: others kept all lines for too long.
        """
        if not urgent and not self._room.acquire(timeout=self._address.timeout):
            raise _crowded(self._address)
        try:
            while self._idle:
                try:
                    line = self._idle.pop()
                except IndexError:  # another thread was quicker
                    break
                if line.usable():
                    return line
                line.close()
            return Line(self._address, self._statements)
        except BaseException:
            if not urgent:
                self._room.release()
            raise

    def put_back(self, line: Line, *, urgent: bool = False) -> None:
        """Keep it for the next caller, if there is nothing left to do on it."""
        if line.usable() and len(self._idle) < self._address.pool_size:
            self._idle.append(line)
        else:
            line.close()
        if not urgent:
            self._room.release()

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return


class LoopPool:
    """For the coroutines of one loop."""

    def __init__(self, address: Address, statements: Statements) -> None:
        self.process = os.getpid()
        self._address = address
        self._statements = statements
        self._room = asyncio.Semaphore(address.pool_size)
        self._idle: list[AsyncLine] = []
        self._lent: set[AsyncLine] = set()

    async def take(self, *, urgent: bool = False) -> AsyncLine:
        """A line that works; waits for room unless `urgent`.

        Raises:
            StoreUnavailable: others kept all lines for too long.
        """
        if not urgent:
            await self._enter()
        try:
            line = self._usable() or await AsyncLine.open(self._address, self._statements)
        except BaseException:
            if not urgent:
                self._room.release()
            raise
        self._lent.add(line)
        return line

    def _usable(self) -> AsyncLine | None:
        while self._idle:
            line = self._idle.pop()
            if line.usable():
                return line
            line.close()
        return None

    async def _enter(self) -> None:
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self._address.timeout):
                await self._room.acquire()
        except TimeoutError:
            raise _crowded(self._address) from None

    def put_back(self, line: AsyncLine, *, urgent: bool = False) -> None:
        """Keep it for the next caller, if there is nothing left to do on it."""
        self._lent.discard(line)
        if line.usable() and len(self._idle) < self._address.pool_size:
            self._idle.append(line)
        else:
            line.close()
        if not urgent:
            self._room.release()

    def close(self) -> None:
        """Close what is idle, which takes no waiting; after the end of the loop, what is lent too."""
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """The loop is closed: nobody will bring anything back."""
        self.close()
        while self._lent:
            self._lent.pop().close()
