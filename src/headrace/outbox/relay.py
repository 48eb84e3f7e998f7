"""The relay: takes events that are written and carries them out, as many relays at once as you like."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from headrace.core.backoff import Backoff, Exponential
from headrace.core.operations import Operation
from headrace.core.outbox import (
    QUEUE,
    ClaimedEvents,
    ClaimEvents,
    PrunedRows,
    PruneEvents,
    PruneInbox,
    SettleEvents,
    StoredEvent,
)
from headrace.core.ports import Driver
from headrace.errors import ConfigError, StoreMisconfigured
from headrace.outbox.delivering import Courier
from headrace.outbox.routes import Routes
from headrace.worker.retrying import Backoff as Pauses
from headrace.worker.retrying import until_answered

logger = logging.getLogger("headrace.outbox")

R = TypeVar("R")

POLL_S = 0.15  # what rings no bell, such as the commit of a plain connection, waits for half of that on average
BUSY_S = 0.02  # what is due and was in other hands a moment ago is looked at again after so long
FIRST_BATCH = 20  # events of the first claim, whose size nobody knows; then twice as many each time
BATCH_BYTES = 8_000_000  # of payloads and headers, about, above which a claim asks for fewer events
PRUNE_S = 60.0
STOP_S = 5.0
LEAST_LEASE_S = 1.0
CDC = (
    "the outbox table is read from the database's log (outbox_mode='cdc'): a relay would publish everything twice. "
    "Run the connector alone, or empty the table and leave that mode"
)


class RelayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a relay works. Durations in seconds.

    Raises:
        ConfigError: a value is out of range.
    """

    batch: int = 500  # most events of one claim; fewer where they are large
    lease: float = 15.0  # a relay that dies holds its aggregates up for so long
    max_attempts: int = 10  # after so many failures an event is parked, and its aggregate with it
    backoff: Backoff = Exponential(base=1, factor=2, cap=60, jitter="equal")
    retention: float = 7 * 86_400.0  # published rows are kept so long
    inbox_retention: float = 30 * 86_400.0  # received messages are remembered so long
    once: bool = False  # stop as soon as nothing is due

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("lease", LEAST_LEASE_S), ("max_attempts", 1), ("retention", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: it must be at least {least:g}")
        if self.inbox_retention < 0:
            raise ConfigError(f"inbox_retention is {self.inbox_retention!r}: it must be at least 0")


class Appetite:
    """How many events to ask for, so that no batch of large ones fills the memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = min(most, FIRST_BATCH)

    def had(self, events: Sequence[StoredEvent]) -> None:
        """Learn from a batch."""
        size = sum(len(event.payload) + len(event.headers) for event in events)
        if size > BATCH_BYTES:
            self.limit = max(1, len(events) * BATCH_BYTES // size)
        elif len(events) >= self.limit and 2 * size <= BATCH_BYTES:
            self.limit = min(self._most, 2 * self.limit)


class Relay:
    """`await run()` returns after `stop()`. When idle it looks a few times a second, and heeds the store's hints."""

    def __init__(self, driver: Driver, routes: Routes, options: RelayOptions, rng: random.Random, id: str) -> None:
        self.id = id
        self.options = options
        self.started = asyncio.Event()
        self._driver = driver
        self._routes = routes
        self._rng = rng
        self._stop = asyncio.Event()
        self._appetite = Appetite(options.batch)
        self._courier = Courier(routes, options.backoff, options.max_attempts, rng)
        self._pauses = Pauses(rng)

    @property
    def published(self) -> int:
        """Events carried out so far."""
        return self._courier.published

    @property
    def parked(self) -> int:
        """Events given up so far."""
        return self._courier.parked

    def stop(self) -> None:
        """Finish the batch in hand and end. From the loop's thread; may be called twice."""
        self._stop.set()

    async def run(self) -> None:
        """Carry events out until stopped.

        Raises:
            ConfigError: the table is one for change data capture.
            StoreMisconfigured: the store cannot be used.
        """
        wakeup = self._driver.wakeup(self.id, (QUEUE,))
        pruning = asyncio.get_running_loop().create_task(self._prune(), name="headrace-outbox-prune")
        try:
            while not self._stop.is_set():
                claimed = await self._unless_stopped(self._claim())
                if claimed is None:
                    break
                self._note_start(claimed)
                if claimed.events:
                    self._appetite.had(claimed.events)
                    await self._carry(claimed)
                elif not claimed.more:
                    if self.options.once:
                        break
                    await self._unless_stopped(wakeup.wait(self._pause(claimed)), patience=0)
        finally:
            pruning.cancel()
            await asyncio.gather(pruning, return_exceptions=True)
            await wakeup.aclose()
            for sink in self._routes.sinks():
                await sink.aclose()
        logger.info("relay %s stopped: %d published, %d parked", self.id, self.published, self.parked)

    def _note_start(self, claimed: ClaimedEvents) -> None:
        if claimed.cdc:
            raise ConfigError(CDC)
        if not self.started.is_set():
            logger.info("relay %s started on %s", self.id, self._driver.describe())
            self.started.set()

    async def _claim(self) -> ClaimedEvents:
        claim = ClaimEvents(self.id, round(self.options.lease * 1_000_000), self._appetite.limit)
        refusing = (StoreMisconfigured, ConfigError)
        return await until_answered(
            lambda: self._driver.arun(claim), self._pauses, "claiming events", refusing=refusing
        )

    async def _carry(self, claimed: ClaimedEvents) -> None:
        """Publish, then say so: what is published and not said comes again (at least once)."""
        deliveries = await self._courier.deliver(claimed, self.options.lease * 2 / 3)
        settle = SettleEvents(self.id, tuple(deliveries))

        told = until_answered(lambda: self._driver.arun(settle), self._pauses, "marking events")
        held = await self._unless_stopped(told)
        if held is not None and not all(held):
            lost = held.count(False)
            logger.warning("%d aggregates were taken over by another relay: their events may be published twice", lost)

    def _pause(self, claimed: ClaimedEvents) -> float:
        if claimed.next_due_us is None:
            return POLL_S * (0.75 + 0.25 * self._rng.random())
        return min(POLL_S, max(BUSY_S, (claimed.next_due_us - claimed.now_us) / 1_000_000))

    async def _unless_stopped(self, attempt: Coroutine[Any, Any, R], patience: float = STOP_S) -> R | None:
        """What `attempt` answers. Once told to stop, it has `patience` seconds left; None when they were not enough."""
        work = asyncio.ensure_future(attempt)
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and patience:
                await asyncio.wait([work], timeout=patience)
            return work.result() if work.done() else None
        finally:
            stop.cancel()
            work.cancel()

    async def _prune(self) -> None:
        """Old rows go in steps, so that no transaction is long (B160). Until cancelled."""
        pauses = Pauses(self._rng)
        published: Operation[PrunedRows] = PruneEvents(round(self.options.retention * 1_000_000))
        received: Operation[PrunedRows] = PruneInbox(round(self.options.inbox_retention * 1_000_000))
        while True:
            await asyncio.sleep(PRUNE_S * (0.75 + 0.5 * self._rng.random()))
            for prune in (published, received):
                attempt = partial(self._driver.arun, prune)
                while (await until_answered(attempt, pauses, "pruning")).more:
                    continue
