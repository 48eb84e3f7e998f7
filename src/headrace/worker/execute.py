"""Runs prepared jobs: slots, timeouts, interruptions, and what each run ended with."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace

from headrace.completion import Completion
from headrace.context import JobContext, enter
from headrace.core import endings, settle, trail
from headrace.core.operations import Outcome
from headrace.core.states import State
from headrace.core.verdict import Verdict, mistaken
from headrace.middleware import Inside
from headrace.worker.completed import committed, tell_afterwards, undone
from headrace.worker.once import end_record
from headrace.worker.polls import answered, follow
from headrace.worker.report import tell
from headrace.worker.settle import Settler
from headrace.worker.shared import Shared
from headrace.worker.steps import prepare
from headrace.worker.table import Work
from headrace.worker.threads import NoThreadError, ThreadCall, ThreadPool
from headrace.worker.timers import start_timer, stop_timer, timeout_of
from headrace.worker.twice import twice

logger = logging.getLogger("headrace.worker")

LATE_US = 2_000_000  # a job whose handler outlives the worker's grace is due again after this


class NotBegunError(Exception):
    """A call that waited for a thread was not wanted any more when it got one."""


class Executor:
    """Holds the jobs that wait for a slot and those that run."""

    def __init__(self, shared: Shared, settler: Settler) -> None:
        self._shared = shared
        self._settler = settler
        self._options = shared.options
        self._inside = Inside(shared.middleware)
        self._waiting: deque[Work] = deque()
        self._threads = ThreadPool(shared.options.thread_limit, "headrace-job")
        self.running = 0
        self.finished = 0
        self._room = asyncio.Event()
        self._resume_at = 0
        self._late: set[asyncio.Task[Any] | None] = set()  # they wait for a thread that has overrun its timeout
        self._quiet = asyncio.Event()
        self._quiet.set()

    # -- what the fetcher sees

    @property
    def waiting(self) -> int:
        """Jobs claimed ahead of a free slot."""
        return len(self._waiting)

    @property
    def stuck(self) -> int:
        """Threads that are past their timeout or were left behind at the end."""
        return self._threads.stuck

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

    def release_waiting(self) -> int:
        """Give back what has not started."""
        works = list(self._waiting)
        self._waiting.clear()
        self.give_back(works)
        self._note_room()
        return len(works)

    def give_back(self, works: Iterable[Work], delay_us: int = 0) -> None:
        """Return `works` unharmed, without starting them; due at once in their old place, or after `delay_us`."""
        for work in works:
            self._end(work, endings.Released(delay_us))

    def want_room(self, in_hand: int) -> None:
        """Make the next `room()` wait until no more than `in_hand` jobs run or wait for a slot."""
        self._resume_at = in_hand
        if self.running + len(self._waiting) > in_hand:
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
        if self._late:
            await asyncio.wait([task for task in self._late if task is not None])

    @property
    def busy(self) -> bool:
        """Whether anything runs, late threads included."""
        return bool(self.running or self._late)

    async def end_all(self, seconds: float) -> int:
        """Grace is over: cancel what runs, wait `seconds`, hand back the rest. Returns how many do not end."""
        works = [work for work in self._shared.table.works() if work.running is not None]
        tasks = [work.running for work in works if work.running is not None]
        for work in works:
            work.interrupt("shutdown")
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        left = [work for work in works if work.running is not None]
        for work in left:
            logger.error("job %s does not end: handing it back", work.job.id, extra=work.describe())
            if work.forestall():
                self._end(work, endings.Released(LATE_US, started=True))
            else:  # a report would wait for the handler's transaction, and all others behind it
                work.leave_unreported()
        return len(left)

    def close(self) -> None:
        """Let the threads leave."""
        self._threads.close()

    # -- slots

    def resume(self) -> None:
        """A heartbeat was answered: start what waited for that."""
        self._fill_slots()

    def _fill_slots(self) -> None:
        while self._waiting and self.running < self._options.concurrency:
            if self._shared.in_doubt(self._waiting[0]):
                return  # after a frost or an outage others may have run it to its end: the next heartbeat tells
            work = self._waiting.popleft()
            # asked to stop before it began: it does not begin
            ending = self._interrupted(work) or self._prepare(work)
            if ending is not None:
                self._end(work, ending)
                continue
            self._start(work)
        self._note_room()

    def _prepare(self, work: Work) -> endings.Ending | None:
        try:
            return prepare(work, self._shared.tasks, self._shared.store_time.now_us())
        except BaseException as error:  # noqa: BLE001 - a validator of the user's may raise anything, SystemExit too
            return endings.Raised(error)

    def _note_room(self) -> None:
        """After every change of what runs or waits: jobs may end without ever having held a slot."""
        if self.running + len(self._waiting) <= self._resume_at:
            self._room.set()

    def _start(self, work: Work) -> None:
        assert work.task is not None
        assert work.envelope is not None
        assert work.trail is not None
        self.running += 1
        self._quiet.clear()
        work.context = JobContext.of(work.job, work.envelope, work.trail, work.task.name, work.kwargs)
        work.context.completion = Completion(
            self._shared.driver, self._shared.id, lambda result: self._conclude(work, endings.Succeeded(result))
        )
        work.context.poll = 0 if work.task.poll is None else work.trail.polls + 1
        if work.guard is not None:
            work.context.once_key, work.context.once_fence = work.guard.key, work.guard.fence
        if work.task.log:
            work.context.logged = {name: work.kwargs.get(name) for name in work.task.log}
        run = self._run_async(work) if work.task.is_async else self._run_in_thread(work)
        work.running = asyncio.get_running_loop().create_task(run)

    def _leave_slot(self) -> None:
        self.running -= 1
        self.finished += 1
        if self.running == 0:
            self._quiet.set()
        self._fill_slots()

    # -- running

    async def _run_async(self, work: Work) -> None:
        assert work.task is not None
        start_timer(work)
        try:
            function = work.task.handler
            ending = await self._outcome_of(work, lambda: self._inside.acall(work.context, function, work.kwargs))
        finally:
            stop_timer(work)
        await self._finish(work, ending)

    async def _outcome_of(self, work: Work, call: Callable[[], Awaitable[Any]]) -> endings.Ending:
        """Await the handler (inside its middleware) and name how it ended. Nothing escapes (B010, B107)."""
        if (ending := self._interrupted(work)) is not None:
            return ending  # between its dispatch and this first step
        work.started_us = self._shared.store_time.now_us()
        try:
            enter(work.context)
            value = await self._with_middleware(work, call)
        except Verdict as verdict:
            return endings.Decided(verdict, work.started_us)
        except (NotBegunError, NoThreadError) as error:
            delay_us = LATE_US if isinstance(error, NoThreadError) else 0
            return self._interrupted(work) or endings.Released(delay_us)
        except BaseException as error:  # noqa: BLE001 - MemoryError, SystemExit: they end this attempt only
            # whatever a handler makes of its cancellation, a deploy costs no attempt (B024)
            return self._interrupted(work) or endings.Raised(error, work.started_us)
        return self._returned(work, value)

    def _returned(self, work: Work, value: Any) -> endings.Ending:
        assert work.task is not None
        if isinstance(value, Verdict):
            return endings.Decided(value, work.started_us)
        if (mistake := mistaken(value, work.task.name)) is not None:
            return endings.Raised(mistake, work.started_us)
        if work.task.poll is not None:
            return answered(work, value)
        return endings.SUCCEEDED if work.guard is None else endings.Succeeded(value)

    async def _with_middleware(self, work: Work, call: Callable[[], Awaitable[Any]]) -> Any:
        run = call
        if self._options.twice:
            run = twice(run, work)
        for layer in reversed(self._shared.middleware):
            run = layer.wrap(work.context, run)
        return await run()

    def _interrupted(self, work: Work) -> endings.Ending | None:
        match work.interruption:
            case "timeout":
                return endings.TimedOut(timeout_of(work) or 0.0, work.started_us)
            case "cancel":
                return endings.CancelledByUser()
            case "shutdown" | "lost":
                return endings.Released(started=work.started_us is not None)
        return None

    async def _run_in_thread(self, work: Work) -> None:
        """A synchronous handler. Its thread cannot be interrupted, only waited for (3b.13)."""
        assert work.task is not None
        function = work.task.handler
        thread: ThreadCall | None = None
        timed = timeout_of(work) is not None

        def begun() -> None:
            # its time counts from when a thread is free for it: waiting for one is not running
            if thread is not None and not thread.stuck and not work.ended:
                start_timer(work)

        def begin() -> Any:
            # in the thread: much may have happened while it waited for one
            if work.interruption or self._shared.in_doubt(work):
                raise NotBegunError
            return self._inside.call(work.context, function, work.kwargs)

        async def call() -> Any:
            nonlocal thread
            thread = self._threads.submit(begin, begun if timed else None)
            returned, value = await asyncio.shield(thread.done)
            if returned:
                return value
            raise value

        try:
            ending = await self._outcome_of(work, call)
        finally:
            stop_timer(work)
        if thread is None or thread.done.done() or self._threads.take_back(thread):
            await self._finish(work, ending)
        else:
            await self._outlive(work, thread, ending)

    async def _outlive(self, work: Work, thread: ThreadCall, ending: endings.Ending) -> None:
        """The handler's thread is still at it: free the slot, but start no second attempt beside it (B044).

        Nor another job with its key, once or of a poll: one that has failed would leave the key free.
        """
        self._threads.abandon(thread, replace=work.interruption != "shutdown")
        outcome = self._conclude(work, ending)
        if work.interruption == "shutdown" and work.forestall():
            self._report(work, self._conclude(work, endings.Released(LATE_US, started=True)))
            self._leave_slot()
        elif outcome.state is State.FAILED and not work.keeps_others_out and work.forestall():
            self._report(work, outcome)
            self._leave_slot()
        else:
            self._leave_slot()
            await self._wait_for_thread(work, thread, ending)

    async def _wait_for_thread(self, work: Work, thread: ThreadCall, ending: endings.Ending) -> None:
        if work.interruption == "timeout":
            text = "job %s overran its timeout in a thread; whatever comes next waits for the thread"
            logger.warning(text, work.job.id, extra=work.describe())
        work.interruption = ""
        late = asyncio.current_task()
        self._late.add(late)
        outcome = None
        try:
            await asyncio.shield(thread.done)
        except asyncio.CancelledError:
            # the process is about to end, and the thread with it; the timeout counts all the same
            outcome = self._conclude(work, ending)
            outcome = replace(outcome, delay_us=max(LATE_US, outcome.delay_us))
        finally:
            self._late.discard(late)
        if work.close():
            await self._look(work, ending)
        else:
            self._report(work, outcome or self._conclude(work, ending))

    # -- ending

    async def _finish(self, work: Work, ending: endings.Ending) -> None:
        """Its run is over, and so is the job, unless its handler has ended that itself."""
        if work.close():
            self._leave_slot()
            await self._look(work, ending)
            return
        try:
            self._end(work, ending)
        finally:
            self._leave_slot()

    async def _look(self, work: Work, ending: endings.Ending) -> None:
        """Ask the store whether the transaction in which its handler completed it was committed."""
        work.interruption = ""
        late = asyncio.current_task()
        self._late.add(late)
        try:
            done = await committed(work, self._shared)
        finally:
            self._late.discard(late)
        if done is None:
            work.leave_unreported()
        elif done:
            tell_afterwards(work, ending)
            self._report(work, self._conclude(work, endings.SUCCEEDED), stored=True)
        else:
            self._end(work, undone(work, ending))

    def _end(self, work: Work, ending: endings.Ending) -> None:
        outcome = self._conclude(work, ending)
        said = "" if outcome.state is State.SUCCEEDED else settle.said(ending, self._shared.policy(work))
        self._report(work, outcome, said)

    def _conclude(self, work: Work, ending: endings.Ending) -> Outcome:
        shared = self._shared
        outcome = settle.conclude(
            work.job,
            # given back before it was prepared: what the job remembers must go back with it
            trail.decode(work.job.trail) if work.trail is None else work.trail,
            ending,
            shared.policy(work),
            now_us=shared.store_time.now_us(),
            worker=shared.id,
            rng=shared.rng,
        )
        if work.task is not None and work.task.poll is not None:
            return follow(work, ending, outcome)
        return outcome if work.guard is None else end_record(work, ending, outcome)

    def _report(self, work: Work, outcome: Outcome, said: str = "", *, stored: bool = False) -> None:
        if work.ended:
            return  # handed back when the worker's grace was over; its handler came to an end after all
        work.ended = True
        work.running = None
        if stored:
            self._shared.table.drop(outcome.queue, outcome.id, outcome.token)
        else:
            self._settler.add(outcome)
        # only now: neither a hook nor a logging set-up that raises may keep an outcome from the store
        for layer in self._shared.middleware:
            layer.tell(work.context, outcome)
        try:
            tell(work, outcome, said)
        except Exception as error:  # noqa: BLE001 - the application's filters and record factories may raise anything
            sys.stderr.write(f"headrace: the outcome of job {work.job.id} could not be logged: {error!r}\n")
