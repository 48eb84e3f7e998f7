"""The hint that makes it fast. MySQL can notify nobody, so it reaches the workers of this process only."""

from __future__ import annotations

import asyncio
import contextlib


class Bells:
    """The workers of this process that listen."""

    def __init__(self) -> None:
        self.listening: set[MySQLWakeup] = set()

    def ring(self) -> None:
        """Wake them all, from any thread."""
        for wakeup in list(self.listening):
            wakeup.ring()


class MySQLWakeup:
    """One worker's ear."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        bells.listening.add(self)

    def ring(self) -> None:
        """Wake the waiting worker, from any thread."""
        if self._loop is None:
            self._event.set()
        else:
            with contextlib.suppress(RuntimeError):  # its loop has been closed: nobody waits, and the job is stored
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float) -> bool:
        """Until rung, at most `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    async def aclose(self) -> None:
        """Stop listening. May be called twice."""
        self._bells.listening.discard(self)
