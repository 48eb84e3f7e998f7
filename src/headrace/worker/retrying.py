"""How the worker's loops outlive a store that does not answer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.errors import HeadraceError, StoreUnavailable

logger = logging.getLogger("headrace.worker")

R = TypeVar("R")

FIRST_S, CAP_S = 0.05, 5.0


class Backoff:
    """Growing, jittered pauses between attempts to reach the store; never gives up."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures = 0

    def reset(self) -> None:
        """The store answered."""
        self._failures = 0

    async def pause(self, error: Exception, doing: str) -> None:
        """Log the first failure of a row and wait; an unexpected error is logged whole, each time."""
        if not isinstance(error, HeadraceError):
            logger.error("unexpected error while %s; trying again", doing, exc_info=error)
        elif self._failures == 0 or not isinstance(error, StoreUnavailable):
            logger.warning("%s failed, trying again: %s", doing, error)
        ceiling = min(CAP_S, FIRST_S * 2 ** min(self._failures, 10))
        self._failures += 1
        await asyncio.sleep(ceiling / 2 + self._rng.random() * ceiling / 2)


async def until_answered(
    attempt: Callable[[], Awaitable[R]], backoff: Backoff, doing: str, *, refusing: tuple[type[Exception], ...] = ()
) -> R:
    """Repeat `attempt` until it returns: every operation may be repeated. Errors in `refusing` are raised."""
    while True:
        try:
            answer = await attempt()
        except refusing:
            raise
        except Exception as error:  # noqa: BLE001 - a loop that stops consuming is worse than any error (B026)
            await backoff.pause(error, doing)
        else:
            backoff.reset()
            return answer
