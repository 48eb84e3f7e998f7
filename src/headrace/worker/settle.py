"""Reports outcomes to the store: whatever ended while the last report was under way goes with the next one."""

from __future__ import annotations

import asyncio
import logging
import random

from headrace.core.operations import Held, Outcome, Settle
from headrace.core.ports import Driver
from headrace.errors import StoreFull, StoreMisconfigured, StoreUnavailable
from headrace.worker.retrying import Backoff
from headrace.worker.table import Table

logger = logging.getLogger("headrace.worker")

MOST = 1_000  # outcomes of one report


class Settler:
    """Group commit without timers: no latency added when idle, large batches under load."""

    def __init__(self, driver: Driver, worker: str, table: Table, rng: random.Random) -> None:
        self._driver = driver
        self._worker = worker
        self._table = table
        self._backoff = Backoff(rng)
        self._pending: list[Outcome] = []
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.reported = 0  # reports that were answered

    def add(self, outcome: Outcome) -> None:
        """Report `outcome` soon. From the loop's thread."""
        self._pending.append(outcome)
        self._work.set()
        self._idle.clear()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._work.wait()
            batch, self._pending = self._pending[:MOST], self._pending[MOST:]
            answers = await self._report(batch)
            self.reported += 1
            for outcome, settled in zip(batch, answers, strict=True):
                work = self._table.drop(outcome.queue, outcome.id, outcome.token)
                if not settled and work is not None:
                    logger.warning(
                        "lease lost: another worker holds job %s or has ended it", outcome.id, extra=work.describe()
                    )
            if not self._pending:
                self._work.clear()
                self._idle.set()

    async def _report(self, batch: list[Outcome], *, resent: bool = False) -> list[bool]:
        """The store's answers. A resent outcome answered "stale" is unknown, not lost: it may have been done.

        Also after a refusal: a store may take some outcomes of a report before it refuses the others.
        """
        while True:
            try:
                answers = await self._driver.arun(Settle(self._worker, tuple(batch)))
            except StoreUnavailable as error:
                resent = True
                await self._backoff.pause(error, "settling")
            except (StoreFull, StoreMisconfigured) as error:
                resent = True
                await self._backoff.pause(error, "settling")
            except Exception as error:  # noqa: BLE001 - one that the store refuses must not hold up the others
                if len(batch) > 1:
                    return [answer for outcome in batch for answer in await self._report([outcome], resent=True)]
                self._give_up(batch[0], error)
                return [True]
            else:
                self._backoff.reset()
                return [True] * len(batch) if resent else answers

    def _give_up(self, outcome: Outcome, error: Exception) -> None:
        """The store will never take this one. Without its heartbeat the job is given back, and tried again."""
        work = self._table.find(Held(outcome.id, outcome.queue, outcome.token))
        fields = work.describe() if work else {}
        logger.error("the store refuses the outcome of job %s", outcome.id, exc_info=error, extra=fields)

    @property
    def pending(self) -> bool:
        """Whether outcomes are still to be reported."""
        return not self._idle.is_set()

    async def drained(self) -> None:
        """Wait until every outcome has been reported."""
        await self._idle.wait()
