"""What every running worker does for all: rescue jobs of dead workers, make due jobs ready, prune.

It needs no leader, no lock and no job of its own, so it cannot get stuck with the worker that did it last (B015).
"""

from __future__ import annotations

import asyncio
import logging

from headrace.core.operations import Prune, Rescue
from headrace.middleware import notice
from headrace.signals import WorkerLost
from headrace.worker.execute import Executor
from headrace.worker.heartbeat import Heart
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared

logger = logging.getLogger("headrace.worker")

RESCUE_S = 5.0  # at most this long between two looks for dead workers
PRUNE_S = 60.0
PRUNE_LAST_S = 1.0  # how long that may take in a worker that has nothing else left to do
CLEAN_BEATS = 2
JUMP_US = 1_000_000  # more than that is no slow answer: a rescue that late is put off
WAITED_S = 1.0  # a job claimed ahead of a slot goes back when no slot came free for that long


class Upkeep:
    """Periodic, jittered loops."""

    def __init__(self, shared: Shared, executor: Executor, heart: Heart) -> None:
        self._shared = shared
        self._executor = executor
        self._heart = heart

    async def rescue(self) -> None:
        """Until cancelled. One that carries its predecessor's beats on begins at once: it may be gone in a second."""
        backoff = Backoff(self._shared.rng)
        while True:
            # a store that was away must not make everybody look dead (3b.4)
            if self._heart.clean_beats >= CLEAN_BEATS:
                await self._rescue_once(backoff)
            await self._shared.sleep(min(RESCUE_S, self._shared.heartbeat_s))

    async def _rescue_once(self, backoff: Backoff) -> None:
        try:
            # beyond that the store's clock has jumped since the last beat, and the living look dead too
            not_after_us = self._shared.store_time.now_us() + JUMP_US
            rescued = await self._shared.driver.arun(Rescue(self._shared.options.queues, not_after_us=not_after_us))
        except Exception as error:  # noqa: BLE001 - logged by pause()
            # not tried again at once: by the time the store is back, leases of the living may be over (3b.4)
            await backoff.pause(error, "rescuing jobs of dead workers")
            return
        backoff.reset()
        lost: dict[str, list[str]] = {}
        for orphan in rescued.jobs:
            lost.setdefault(orphan.worker, []).append(orphan.id)
            logger.warning(
                "rescued job %s from worker %s",
                orphan.id,
                orphan.worker,
                extra={"job_id": orphan.id, "queue": orphan.queue},
            )
        for worker, jobs in lost.items():
            notice(self._shared.middleware, WorkerLost(worker, tuple(jobs), self._shared.id))

    async def prune(self) -> None:
        """Until cancelled."""
        backoff = Backoff(self._shared.rng)
        prune = Prune(*self._shared.keep_failed)
        # workers that live for seconds only prune as often, all together, as one that lives on
        await asyncio.sleep(self._shared.rng.random() * PRUNE_S)
        more = True
        while True:
            # on while there is more: what comes faster than one step a minute must not fill the store (B025)
            if not more:
                await self._shared.sleep(PRUNE_S)
            more = (await until_answered(lambda: self._shared.driver.arun(prune), backoff, "pruning")).more

    async def prune_last(self) -> None:
        """Once, in a worker that ends by itself: such as are started every few minutes may never get to prune."""
        prune = Prune(*self._shared.keep_failed)
        try:
            async with asyncio.timeout(PRUNE_LAST_S):
                while (await self._shared.driver.arun(prune)).more:
                    pass
        except Exception as error:  # noqa: BLE001 - the next worker does it
            logger.warning("pruning was left to the next worker: %r", error)

    async def unhoard(self) -> None:
        """Give back jobs that were claimed ahead and found no slot: another worker may be free. Until cancelled."""
        executor = self._executor
        while True:
            started = executor.finished
            await asyncio.sleep(WAITED_S)
            if executor.waiting and executor.finished == started:
                executor.release_waiting("every slot is busy")
