"""Extends this worker's lease over all it holds, and learns what it has lost or should cancel.

The beat runs in a thread with a synchronous connection of its own, so that a handler which blocks the event
loop does not cost the lease (B040). Code that holds the interpreter's lock longer than the lease still does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from headrace.core.operations import Beat, Beaten
from headrace.core.wording import counted
from headrace.worker.handover import Handover
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared

logger = logging.getLogger("headrace.worker")


APART = 0.9  # of a heartbeat must lie between two clean beats that count


class Heart:
    """Beats, and counts clean beats: a worker may rescue others only after two in a row, a heartbeat apart (3b.4)."""

    def __init__(self, shared: Shared, answered: Callable[[], None]) -> None:
        """`answered` is called on the loop after each beat that the store answered."""
        self._shared = shared
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_beat = shared.monotonic()
        self._clean = 0
        self._clean_at = float("-inf")

    @property
    def clean_beats(self) -> int:
        """Clean beats in a row up to now. A frost ends the row: the store may have been away meanwhile (3b.4)."""
        recent = self._shared.monotonic() - self._clean_at <= 2 * self._shared.heartbeat_s
        return self._clean if recent else 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._serve, name="headrace-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop beating. May be called twice."""
        self._stop.set()

    async def stopped(self) -> None:
        """Wait for a beat under way."""
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    def doubt(self) -> None:
        """The store was away, or its clock has jumped: count clean beats anew."""
        self._clean = 0

    def inherit(self, handover: Handover) -> None:
        """Carry on the row of the process image before this one, unless it is too old."""
        self._clean, self._clean_at = handover.clean_beats, handover.clean_at
        self._shared.store_time.inherit(handover.store_us, handover.learnt_at)

    def handover(self) -> Handover:
        """For the process image that comes after this one."""
        return Handover(self.clean_beats, self._clean_at, *self._shared.store_time.learnt)

    async def first_beat(self, refusing: tuple[type[Exception], ...]) -> None:
        """Errors in `refusing` are raised, others waited out; only an answer at once counts as a clean beat."""
        sent, beat, beaten = await self._answered_beat(refusing)
        self._absorb(sent, beat, beaten)

    async def beat_until_answered(self) -> None:
        """After an outage: beat before the next claim."""
        self.doubt()
        sent, beat, beaten = await self._answered_beat(())
        self._absorb(sent, beat, beaten, clean=False)

    async def _answered_beat(self, refusing: tuple[type[Exception], ...]) -> tuple[float, Beat, Beaten]:
        async def attempt() -> tuple[float, Beat, Beaten]:
            try:
                return await self._beat_once()
            except Exception:
                self.doubt()
                raise

        return await until_answered(attempt, Backoff(self._shared.rng), "sending a heartbeat", refusing=refusing)

    async def run_on_loop(self) -> None:
        """Beat as a coroutine: for the simulator, whose time no thread can keep."""
        while True:
            wait = self._shared.heartbeat_s
            try:
                sent, beat, beaten = await self._beat_once()
            except Exception as error:  # noqa: BLE001 - the next beat may succeed
                self._missed(error)
                wait = min(1.0, wait)
            else:
                self._absorb(sent, beat, beaten)
            await asyncio.sleep(wait)

    async def _beat_once(self) -> tuple[float, Beat, Beaten]:
        sent, beat = self._shared.monotonic(), self._beat()
        return sent, beat, await self._shared.driver.arun(beat)

    def _beat(self) -> Beat:
        open_claim, held = self._shared.table.snapshot()
        return Beat(self._shared.id, self._shared.options.queues, self._shared.lease_us, held, open_claim)

    def _serve(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            wait = self._shared.heartbeat_s
            try:
                sent, beat = self._shared.monotonic(), self._beat()
                beaten = self._shared.driver.run(beat)
                self._note_lateness()
                if not self._loop.is_closed():
                    self._loop.call_soon_threadsafe(self._absorb, sent, beat, beaten)
            except Exception as error:  # noqa: BLE001 - the thread must not end (B021): the next beat may succeed
                self._missed(error)
                wait = min(1.0, wait)

    def _missed(self, error: Exception) -> None:
        self._clean = 0
        logger.warning("heartbeat failed: %s", error, extra={"worker": self._shared.id})

    def _note_lateness(self) -> None:
        now = self._shared.monotonic()
        late = now - self._last_beat - self._shared.heartbeat_s
        self._last_beat = now
        if late > self._shared.heartbeat_s:
            names = sorted({work.task.name for work in self._shared.table.works() if work.task and work.started_us})
            logger.warning("heartbeat was %.1f s late; running: %s", late, ", ".join(names[:5]) or "nothing")

    def _absorb(self, sent: float, beat: Beat, beaten: Beaten, *, clean: bool = True) -> None:
        """On the loop: take note of the answer to `beat`, which was sent at `sent`."""
        agrees = self._shared.store_time.learn(beaten.now_us)
        row = self.clean_beats
        if not (clean and agrees):
            self._clean, self._clean_at = 0, sent
        elif row == 0 or sent - self._clean_at >= APART * self._shared.heartbeat_s:
            self._clean, self._clean_at = row + 1, sent
        find = self._shared.table.find
        for held in beaten.lost:
            # one that is being settled at this moment has no handler left to stop; one that waits will not start
            if (work := find(held)) is not None and not work.ended and work.interrupt("lost"):
                logger.warning("lease lost: stopping job %s, which runs elsewhere now", held.id, extra=work.describe())
        for held in beaten.cancel:
            if (work := find(held)) is not None and not work.ended and work.interrupt("cancel"):
                logger.info("cancelling job %s on request", held.id, extra=work.describe())
        if beaten.released:
            logger.warning("given back, as the reply to their claim was lost: %s", counted(beaten.released, "job"))
        lost = set(beaten.lost)
        for held in beat.held:
            if held not in lost and (work := find(held)) is not None:
                work.confirmed_at = max(work.confirmed_at, sent)
        self._answered()
