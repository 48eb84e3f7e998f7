"""Claims jobs up to the free capacity, and waits without noise when there are none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from headrace.core import settle, trail
from headrace.core.fair import weighted_order
from headrace.core.operations import Claim, Claimed
from headrace.core.ports import Wakeup
from headrace.core.retry import Retry
from headrace.stores.contract import BATCH
from headrace.worker.execute import Executor
from headrace.worker.heartbeat import Heart
from headrace.worker.once import Guards
from headrace.worker.parked import ParkedJobs
from headrace.worker.retrying import Backoff
from headrace.worker.settle import Settler
from headrace.worker.shared import Shared
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

POLL_S = 1.0  # the longest idle wait: the truth is polled
ALONE_WITHIN_S = 30.0  # how long a worker claims nothing so that a suspect may run alone in it
ALONE_AGAIN_US = 10_000_000  # when it does not get empty by then: the suspect is offered again after this
AHEAD_S = 0.05  # jobs are claimed ahead of free slots for about this much work, so that no slot waits for a round trip
AHEAD_MOST = 2_000  # more makes no worker quicker, and each costs memory


class Pace:
    """How many jobs a second this worker ends. Quick to believe that it has become faster, slow the other way."""

    def __init__(self) -> None:
        self._finished = 0
        self._at = 0.0
        self.rate = 0.0

    def note(self, finished: int, now: float) -> None:
        """Take a sample, at most ten a second."""
        if now - self._at < 0.1:
            return
        sample = (finished - self._finished) / (now - self._at)
        weight = 0.5 if sample > self.rate else min(1.0, now - self._at)  # within about 0.2 s, or a second
        self.rate += (sample - self.rate) * weight
        self._finished, self._at = finished, now


class Fetcher:
    """One claim at a time; its number grows with each answered one."""

    def __init__(
        self,
        shared: Shared,
        executor: Executor,
        settler: Settler,
        heart: Heart,
        wakeup: Wakeup,
        *,
        parked: ParkedJobs,
        nothing_left: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._executor = executor
        self._settler = settler
        self._heart = heart
        self._wakeup = wakeup
        self._nothing_left = nothing_left
        self._backoff = Backoff(shared.rng)
        self._guards = Guards(shared)
        self._parked = parked
        self._pace = Pace()
        self._number = 1
        self._cautious = False  # the last claim brought a suspect: look at jobs one by one
        self.progressed_at = shared.monotonic()

    async def run(self) -> None:
        """Until the worker stops. Stopped by a flag between claims: what is claimed is run or handed back (B003)."""
        while not self._shared.stopping:
            limit = self._limit()
            if limit <= 0:
                self.progressed_at = self._shared.monotonic()
                await self._shared.either(self._executor.room())
                continue
            sent, reported = self._shared.monotonic(), self._settler.reported
            claimed = await self._claim(limit)
            if claimed is None:
                continue
            self.progressed_at = self._shared.monotonic()
            works = self._shared.table.take(claimed.jobs, self._number, sent)
            self._number += 1
            try:
                await self._dispatch(works)
            except BaseException:
                self._executor.give_back(work for work in works if not work.fed)
                raise
            if not claimed.jobs and not claimed.more:
                await self._idle(claimed, reported)

    def _limit(self) -> int:
        """Free slots, and a little ahead: as many jobs as this worker ends in `AHEAD_S`. 0: wait for room."""
        executor, options = self._executor, self._shared.options
        in_hand = executor.running + executor.waiting
        if self._cautious:
            executor.want_room(0)
            return 0 if in_hand else 1
        self._pace.note(executor.finished, self._shared.monotonic())
        ahead = min(int(self._pace.rate * AHEAD_S), AHEAD_MOST)
        capacity = options.concurrency + ahead
        # a claim for a handful costs as much as one for many: while slots have enough before them, wait for a quarter
        worthwhile = max(1, ahead // 4)
        if options.max_jobs is not None:
            capacity, worthwhile = min(capacity, options.max_jobs - executor.finished), 1
        executor.want_room(capacity - worthwhile)
        free = capacity - in_hand
        return min(free, BATCH) if free >= worthwhile else 0

    async def _claim(self, limit: int) -> Claimed | None:
        """None after an outage: the same number is claimed again, after a heartbeat (3b.3, 3b.4)."""
        shared = self._shared
        options = shared.options
        queues = weighted_order(options.weights, shared.rng.random) if options.weights else options.queues
        try:
            claimed = await shared.driver.arun(Claim(shared.id, self._number, queues, limit, shared.lease_us))
        except Exception as error:  # noqa: BLE001 - a live process that no longer consumes is worse (B026)
            # neither may hold up a shutdown while the store is away
            await shared.either(self._backoff.pause(error, "claiming"))
            await shared.either(self._heart.beat_until_answered())
            return None
        self._backoff.reset()
        if not shared.store_time.learn(claimed.now_us):
            self._heart.doubt()
        return claimed

    async def _dispatch(self, works: list[Work]) -> None:
        if not self._shared.stopping:
            works = await self._let_in(works)
            await self._guards.take(works)
        if self._shared.stopping:  # told while the claim or a question was under way: nothing starts any more (B003)
            self._executor.give_back(works)
            return
        suspects = [work for work in works if work.job.trail is not None and self._is_suspect(work)]
        if not suspects:
            self._cautious = False
            self._executor.feed(works)
            return
        # one of them, to run alone when this worker is empty; others may take the rest, or run alone elsewhere
        kept, *others = suspects
        self._executor.give_back(others)
        self._executor.feed([work for work in works if work not in suspects])
        await self._run_alone(kept)

    async def _let_in(self, works: list[Work]) -> list[Work]:
        """Those that pass the gates. The others end here, without waiting for a slot."""
        gates = self._shared.gates
        await gates.admit(works)
        refused = [work for work in works if gates.ending(work) is not None]
        if not refused:
            return works
        self._executor.turn_away(refused)
        return [work for work in works if not work.ended]

    def _is_suspect(self, work: Work) -> bool:
        """Crashes so often that the next one may convict it. The policy of an unknown task is the default one.

        A child process runs one job at a time, so its death convicts at once. A job that runs there is a suspect only
        when more workers than that have died under it, which no child's death explains. One that is convicted already
        runs no more, so it need not wait for an empty worker: should that die meanwhile, others would share the blame.
        """
        remembered = trail.decode(work.job.trail)
        if not remembered.crashes:
            return False
        task = self._shared.task_of(work)
        retry = Retry() if task is None else task.retry
        if settle.is_poison(remembered, retry):
            return False
        if task is not None and task.run_in == "process":
            return remembered.crashes >= retry.max_crashes
        return settle.is_suspect(remembered, retry)

    async def _run_alone(self, work: Work) -> None:
        """In an otherwise empty worker, so that a crash convicts this job and no bystander (3b.5).

        Other workers go on meanwhile. Where this one does not get empty soon, it goes on too, and the job waits a
        little: a job of an hour must not keep all others from running.
        """
        shared, holds = self._shared, self._shared.holds
        if await self._emptied() and not shared.stopping and await holds.may_run(work) and not shared.stopping:
            logger.warning("job %s has crashed before: it runs alone", work.job.id, extra=work.describe())
            self._cautious = True
            self._executor.feed([work])
            await self._shared.either(self._executor.quiet())
            await self._shared.either(self._settler.drained())
        elif holds.ending(work) is not None:
            self._cautious = False
            self._executor.turn_away([work])
        else:
            self._cautious = False
            self._executor.give_back([work], delay_us=0 if self._shared.stopping else ALONE_AGAIN_US)

    async def _emptied(self) -> bool:
        """Whether everything else has ended, been reported, and left no thread behind: what is lost now is its own."""

        async def empty() -> None:
            self._executor.want_room(0)  # nor may a job wait for a slot
            await self._executor.room()
            await self._settler.drained()
            await self._shared.holds.reported()

        async def empty_in_time() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(empty(), ALONE_WITHIN_S)

        await self._shared.either(empty_in_time())
        executor, unreported = self._executor, self._settler.pending or self._shared.holds.pending
        return not (executor.running or executor.waiting or executor.stuck or unreported)

    async def _idle(self, claimed: Claimed, reported: int) -> None:
        """Nothing is ready. `reported`: the reports answered before that was asked."""
        if not self._executor.busy:
            if self._shared.options.burst and (self._settler.pending or self._settler.reported != reported):
                # a job that has ended may set off others in the same step: look again once that is stored
                await self._shared.either(self._settler.drained())
                return
            if self._shared.options.burst and self._parked.soon:  # parked jobs are on their way back, or may be
                await self._shared.either(self._parked.looked())
                return
            self._nothing_left()
        wait = POLL_S
        if claimed.next_due_us is not None:
            wait = min(wait, max(0.001, (claimed.next_due_us - claimed.now_us) / 1_000_000))
        if wait == POLL_S:
            wait *= 0.75 + 0.25 * self._shared.rng.random()
        await self._shared.either(self._wakeup.wait(wait))

    async def close(self) -> None:
        """Stop listening."""
        await self._wakeup.aclose()
