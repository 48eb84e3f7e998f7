"""The slots of a worker: which jobs wait for one, and which run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from headrace.completion import Completion
from headrace.context import JobContext
from headrace.core import endings
from headrace.core.wording import counted
from headrace.worker import running
from headrace.worker.apart import Apart
from headrace.worker.ending import Reporter
from headrace.worker.running import LATE_US, Runs
from headrace.worker.settle import Settler
from headrace.worker.shared import Shared
from headrace.worker.steps import prepare
from headrace.worker.table import Work
from headrace.worker.threads import ThreadPool

logger = logging.getLogger("headrace.worker")


class Executor:
    """Holds the jobs that wait for a slot and those that run."""

    def __init__(self, shared: Shared, settler: Settler) -> None:
        self._shared = shared
        self._options = shared.options
        self._reporter = Reporter(shared, settler)
        self._waiting: deque[Work] = deque()
        self._doubtful: list[Work] = []  # of those, the ones whose turn has come while their circuit was in doubt
        self._threads = ThreadPool(shared.options.thread_limit, "headrace-job")
        self._apart = Apart(shared)
        self._runs = Runs(shared, self._reporter, self._threads, self._apart, self._leave_slot)
        self.running = 0
        self.finished = 0
        self._room = asyncio.Event()
        self._resume_at = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    # -- what the fetcher sees

    @property
    def waiting(self) -> int:
        """Jobs claimed ahead of a free slot."""
        return len(self._waiting) + len(self._doubtful)

    @property
    def stuck(self) -> int:
        """Threads that are past their timeout or were left behind at the end."""
        return self._threads.stuck

    @property
    def children(self) -> list[int]:
        """Ids of the child processes that live."""
        return self._apart.pids

    @property
    def too_many_stuck(self) -> bool:
        """More threads are past their timeout than this worker puts up with."""
        return self._threads.stuck > self._options.stuck_limit

    def feed(self, works: Iterable[Work]) -> None:
        """Run `works` as slots come free."""
        for work in works:
            work.fed = True
            self._waiting.append(work)
        self._fill_slots()

    def release_waiting(self, why: str) -> None:
        """Give back what has not started. One line tells of all of it."""
        works = [*self._doubtful, *self._waiting]
        self._doubtful.clear()
        self._waiting.clear()
        self.give_back(works)
        self._note_room()
        if works:
            logger.info("giving back %s claimed ahead: %s", counted(len(works), "job"), why)

    def give_back(self, works: Iterable[Work], delay_us: int = 0) -> None:
        """Return `works` unharmed, without starting them; due at once in their old place, or after `delay_us`."""
        for work in works:
            self._reporter.end(work, endings.Released(delay_us))

    def turn_away(self, works: Iterable[Work]) -> None:
        """End `works`, which the gates hold back, unless something else ends them, without a slot."""
        for work in works:
            self._reporter.end(work, running.interrupted(work) or self._prepare(work) or endings.Released())

    def want_room(self, in_hand: int) -> None:
        """Make the next `room()` wait until no more than `in_hand` jobs run or wait for a slot."""
        self._resume_at = in_hand
        if self.running + self.waiting > in_hand:
            self._room.clear()
        else:
            self._room.set()

    async def room(self) -> None:
        """Wait for what `want_room` asked for."""
        await self._room.wait()

    async def quiet(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()

    async def over(self) -> None:
        """Wait until nothing runs, late threads included."""
        await self._quiet.wait()
        if self._reporter.late:
            await asyncio.wait([task for task in self._reporter.late if task is not None])

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits for a slot, late threads included."""
        return bool(self.running or self.waiting or self._reporter.late)

    async def end_all(self, seconds: float) -> int:
        """Grace is over: cancel what runs, wait `seconds`, hand back the rest. Returns how many do not end."""
        works = [work for work in self._shared.table.works() if work.running is not None]
        tasks = [work.running for work in works if work.running is not None]
        for work in works:
            work.interrupt("shutdown")
        self._apart.hasten()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        left = [work for work in works if work.running is not None]
        for work in left:
            logger.error("job %s does not end: handing it back", work.job.id, extra=work.describe())
            if work.forestall():
                self._reporter.end(work, endings.Released(LATE_US, started=True))
            else:  # a report would wait for the handler's transaction, and all others behind it
                work.leave_unreported()
        return len(left)

    async def close(self) -> None:
        """Let the threads leave, and wait for the end of the child processes."""
        self._threads.close()
        await self._apart.close()

    # -- slots

    def resume(self) -> None:
        """A heartbeat was answered, or a report to circuits: start what waited for that."""
        self._waiting.extendleft(reversed(self._doubtful))
        self._doubtful.clear()
        self._fill_slots()

    def _fill_slots(self) -> None:
        while self._waiting and self.running < self._options.concurrency:
            if self._shared.in_doubt(self._waiting[0]):
                return  # after a frost or an outage others may have run it to its end: the next heartbeat tells
            work = self._waiting.popleft()
            if self._shared.gates.in_doubt(work):
                self._doubtful.append(work)
                continue
            # asked to stop before it began: it does not begin
            ending = running.interrupted(work) or self._prepare(work)
            if ending is not None:
                self._reporter.end(work, ending)
                continue
            self._start(work)
        self._note_room()

    def _prepare(self, work: Work) -> endings.Ending | None:
        try:
            now_us = self._shared.store_time.now_us()
            return prepare(work, self._shared.tasks, now_us, self._shared.gates.ending)
        except BaseException as error:  # noqa: BLE001 - a validator of the user's may raise anything, SystemExit too
            return endings.Raised(error)

    def _note_room(self) -> None:
        """After every change of what runs or waits: jobs may end without ever having held a slot."""
        if self.running + self.waiting <= self._resume_at:
            self._room.set()

    def _start(self, work: Work) -> None:
        assert work.task is not None
        assert work.envelope is not None
        assert work.trail is not None
        self.running += 1
        self._quiet.clear()
        work.context = JobContext.of(work.job, work.envelope, work.trail, work.task.name, work.kwargs)
        work.context.completion = Completion(
            self._shared.driver,
            self._shared.id,
            lambda result: self._reporter.conclude(work, endings.Succeeded(result)),
        )
        work.context.poll = 0 if work.task.poll is None else work.trail.polls + 1
        if work.guard is not None:
            work.context.once_key, work.context.once_fence = work.guard.key, work.guard.fence
        if work.task.log:
            work.context.logged = {name: work.kwargs.get(name) for name in work.task.log}
        work.running = asyncio.get_running_loop().create_task(self._runs.run(work))

    def _leave_slot(self) -> None:
        self.running -= 1
        self.finished += 1
        if self.running == 0:
            self._quiet.set()
        self._fill_slots()
