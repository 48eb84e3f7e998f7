"""One worker from start to stop: ties fetching, running, settling, the heartbeat and upkeep together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

from headrace.core.operations import Leave
from headrace.core.wording import counted
from headrace.errors import ConfigError, StoreMisconfigured
from headrace.middleware import beside
from headrace.worker.children.importing import refuse_worker
from headrace.worker.execute import Executor
from headrace.worker.fetch import Fetcher
from headrace.worker.gates import Gates
from headrace.worker.handover import Handover
from headrace.worker.heartbeat import Heart
from headrace.worker.holds import Holds, OfHolds
from headrace.worker.options import WorkerOptions
from headrace.worker.parked import OfCircuits, ParkedJobs, Policy
from headrace.worker.recycle import Limits
from headrace.worker.retrying import Backoff
from headrace.worker.settle import Settler
from headrace.worker.shared import Host, Shared
from headrace.worker.upkeep import Upkeep

logger = logging.getLogger("headrace.worker")

RECYCLE_S = 600.0  # how long a worker that is to be recycled waits for its running jobs
REPORTED_S = 1.0  # how long the last word to circuits and of convictions may take
FLUSH_S = 5.0  # how long the last reports may take once everything has ended


class Exit(StrEnum):
    """Why a worker ended."""

    STOPPED = "stopped"
    RECYCLE = "recycle"  # it wants to be started anew


class Leftovers(NamedTuple):
    """Handlers that outlived a worker."""

    coroutines: int  # they ignore their cancellation
    threads: int  # they cannot be cancelled


class Worker:
    """Runs the tasks of an app. `await run()` returns after `stop()`, or when a limit asks for a fresh process.

    `threaded_heart=False` beats on the loop: for tests on a virtual clock.
    """

    def __init__(self, app: Host, options: WorkerOptions, *, id: str, threaded_heart: bool = True) -> None:
        self.id = id
        self.options = options
        self.shared = Shared(app, options, id)
        self.shared.gates = self.gates = Gates(self.shared, app.circuits, app.queue_options)
        self.shared.holds = self.holds = Holds(self.shared)
        policies: dict[str, Policy] = {
            "circuit": OfCircuits(self.shared, self.gates),
            "held": OfHolds(self.shared, self.holds),
        }
        self.parked = ParkedJobs(self.shared, policies)
        self._threaded_heart = threaded_heart
        self._told = asyncio.Event()
        self._hurry = asyncio.Event()
        self._exit = Exit.STOPPED
        self._deaf = 0
        self.started = asyncio.Event()
        self.inherited: Handover | None = None  # to be set before `run`: what the process image before this one left

    # -- start and stop

    def stop(self) -> None:
        """Stop claiming, let running jobs finish within grace, hand back the rest. A second call ends the grace.

        A worker that drains to be recycled ends instead, within grace from now. From the loop's thread.
        """
        if self._told.is_set():
            self._hurry.set()
        logger.info("worker %s was told to stop%s", self.id, " at once" if self._hurry.is_set() else "")
        self._told.set()
        self._exit = Exit.STOPPED
        self.shared.stop_claiming()

    def _nothing_left(self) -> None:
        if self.options.burst and not self.shared.stopping:
            text = "nothing is ready, and nothing runs here: stopping (what other workers run is not waited for)"
            logger.info(text, extra={"worker": self.id})
            self._told.set()
            self.shared.stop_claiming()

    def recycle(self, why: str) -> None:
        """Drain, for ten minutes at most, then end with `Exit.RECYCLE`."""
        if not self.shared.stopping:
            logger.info("recycling: %s", why, extra={"worker": self.id})
            self._exit = Exit.RECYCLE
            self.shared.stop_claiming()

    @property
    def exit(self) -> Exit:
        """How it ends, as things stand."""
        return self._exit

    @property
    def leftovers(self) -> Leftovers:
        """What only the end of the process can stop."""
        return Leftovers(self._deaf, self.executor.stuck)

    async def run(self) -> Exit:
        """Work until stopped.

        Raises:
            ConfigError: the options can never hold; or this is a child process of a worker that imports its program.
            StoreMisconfigured: the store would lose jobs.
        """
        refuse_worker()
        return await self._run()

    async def _run(self) -> Exit:
        shared, driver = self.shared, self.shared.driver
        self.settler = Settler(driver, self.id, shared.table, shared.rng)
        self.executor = Executor(shared, self.settler)
        self.heart = Heart(shared, answered=self.executor.resume)
        self.gates.feedback.answered = self.executor.resume
        limits = Limits(shared, self.executor, self.recycle)  # refuses what can never hold, before anything is opened
        wakeup = driver.wakeup(self.id, self.options.queues)
        self.fetcher = Fetcher(
            *(shared, self.executor, self.settler, self.heart, wakeup),
            parked=self.parked,
            nothing_left=self._nothing_left,
        )
        self.upkeep = Upkeep(shared, self.executor, self.heart)
        # a store that would lose jobs is refused here; later on, whatever it says, the worker waits for it
        if self.inherited is not None:
            self.heart.inherit(self.inherited)
        await shared.either(self.heart.first_beat(refusing=(StoreMisconfigured, ConfigError)))
        await shared.either(self.holds.look())  # before the first claim: it may kill this worker
        background = [self._keep(part) for part in (*self._parts(limits), *beside(shared.middleware, self.id))]
        if self._threaded_heart:
            self.heart.start()
        else:
            background.append(self._keep(self.heart.run_on_loop))
        logger.info("worker %s started on %s: queues %s", self.id, driver.describe(), ", ".join(self.options.queues))
        self.started.set()
        try:
            await self._keep(self.fetcher.run)
            await self._drain()
        finally:
            await self._hand_back()
            await self._close(background)
        logger.info("worker %s %s after %s", self.id, self._exit.value, counted(self.executor.finished, "job"))
        return self._exit

    def _parts(self, limits: Limits) -> tuple[Callable[[], Awaitable[None]], ...]:
        """What goes on beside the claims."""
        gates, upkeep = self.gates, self.upkeep
        return (
            *(self.settler.run, gates.feedback.report, gates.keep_probes, gates.keep_known),
            *(self.parked.watch, self.holds.watch),
            *(upkeep.rescue, upkeep.prune, upkeep.unhoard, limits.watch),
        )

    def _keep(self, part: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run a part of the worker; should it ever raise, say so and start it again (B026)."""

        async def kept() -> None:
            backoff = Backoff(self.shared.rng)
            while True:
                try:
                    return await part()
                except Exception as error:  # noqa: BLE001 - logged whole by pause()
                    await backoff.pause(error, f"running {part.__qualname__}")

        return self.shared.loop.create_task(kept(), name=part.__qualname__)

    async def _drain(self) -> None:
        """Finish within grace; then cancel, and hand back what does not end even so."""
        self.executor.release_waiting("this worker ends")
        if not self._told.is_set() and not await self._quiet_unless(self._told, RECYCLE_S) and not self._told.is_set():
            left = counted(self.executor.running, "job")
            logger.warning("recycling after %.0f s all the same, with %s running", RECYCLE_S, left)
        if self._told.is_set() and not await self._quiet_unless(self._hurry, self.options.grace):
            logger.warning("grace is over: handing back %s", counted(self.executor.running, "running job"))

    async def _hand_back(self) -> None:
        """Cancel what still runs, also when the worker itself was cancelled, and give back what does not end."""
        self.executor.release_waiting("this worker ends")
        patience = 1.0 if self._hurry.is_set() else min(FLUSH_S, max(1.0, self.options.grace))
        self._deaf = await self.executor.end_all(patience)
        if self._deaf:
            logger.error("%d handlers ignore their cancellation; their jobs are handed back", self._deaf)

    async def _quiet_unless(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Whether everything ended before `event` came or `seconds` were over."""
        quiet, other = asyncio.ensure_future(self.executor.over()), asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([quiet, other], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return quiet.done()
        finally:
            quiet.cancel()
            other.cancel()

    async def _within(self, wait: Awaitable[object], seconds: float) -> bool:
        """Whether `wait` ended within `seconds`: every await in a shutdown has a deadline (B108)."""
        try:
            async with asyncio.timeout(seconds):
                await wait
        except TimeoutError:
            return False
        return True

    async def _close(self, background: list[asyncio.Task[None]]) -> None:
        """Report what is unreported, leave the store, stop the parts."""
        if not await self._within(self.settler.drained(), FLUSH_S):
            logger.error("the store took no reports for %.0f s; unreported jobs run again after their lease", FLUSH_S)
        elif not await self._within(self._told_all(), REPORTED_S):
            logger.warning("the last calls through circuits and convictions are not counted: the store is silent")
        elif self.options.burst:
            await self.upkeep.prune_last()
        self.heart.stop()  # not before: what has ended must not look like the jobs of a dead worker
        for task in background:
            task.cancel()
        await self._within(asyncio.gather(*background, return_exceptions=True), FLUSH_S)
        await self._within(self.heart.stopped(), FLUSH_S)
        await self._leave()
        await self.fetcher.close()
        if not await self._within(self.executor.close(), FLUSH_S):
            logger.error("a child process cannot be ended; it is left to the system")

    async def _told_all(self) -> None:
        await self.gates.feedback.reported()
        await self.holds.reported()

    async def _leave(self) -> None:
        async def leave() -> None:
            released = await self.shared.driver.arun(Leave(self.id, self.options.queues))
            if released:
                logger.warning("handed back %s that did not end", counted(released, "job"))

        try:
            if not await self._within(leave(), FLUSH_S):
                logger.error("the store did not answer the farewell; held jobs run again after their lease")
        except Exception:
            logger.exception("the store refused the farewell; held jobs run again after their lease")
