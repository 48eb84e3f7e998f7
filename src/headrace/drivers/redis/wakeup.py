"""The wake-up: a blocking pop on a connection of its own. It carries no job and may fail; the truth is polled."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence

from headrace.drivers.redis.address import Address
from headrace.drivers.redis.exchange import Scripts
from headrace.drivers.redis.pipe import Pipe
from headrace.errors import StoreError

BLOCK = 1.0  # seconds of one blocking pop; the connection's own timeout is longer by `socket_timeout` (B029)
BACKOFF = (0.05, 2.0)  # seconds between attempts to connect, growing from the first to the second


class RedisWakeup:
    """Waits for hints on the wake lists of some queues. Connects, and connects again, by itself (B026)."""

    def __init__(self, address: Address, keys: Sequence[str]) -> None:
        self._address = address
        self._keys = tuple(keys)
        self._pipe: Pipe | None = None
        self._pop: asyncio.Task[bool] | None = None
        self._failures = 0
        self._closed = False

    async def wait(self, timeout: float) -> bool:
        """True when rung, False after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while not self._closed and (left := until - loop.time()) > 0:
            if self._pop is None:  # else it goes on from the wait before: an element that it took is not lost
                self._pop = loop.create_task(self._listen(min(BLOCK, left)))
            done, _ = await asyncio.wait({self._pop}, timeout=left)
            if not done:
                return False
            pop, self._pop = self._pop, None  # before its error is raised: the next wait begins anew
            if pop.result():
                return True
        return False

    async def _listen(self, block: float) -> bool:
        """One blocking pop; a failure is answered with a pause, for the next one to try again."""
        try:
            if self._pipe is None or not self._pipe.open:
                self._pipe = await Pipe.connect(self._address, Scripts({}), BLOCK + self._address.socket_timeout)
            answer = await self._pipe.call(("BLPOP", *self._keys, f"{max(block, 0.01):.3f}"))
        except StoreError:
            self._failures += 1
            least, most = BACKOFF
            await asyncio.sleep(min(most, least * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1))
            return False
        self._failures = 0
        return answer is not None

    async def aclose(self) -> None:
        """Stop listening. May be called twice."""
        self._closed = True
        pop, self._pop = self._pop, None
        try:
            if pop is not None:
                pop.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await pop
        finally:
            if self._pipe is not None:
                await self._pipe.aclose()
