"""One run of a handler, on the loop, in a thread or in a child process: what it ended with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from msgspec.structs import replace

from headrace.context import enter
from headrace.core import endings
from headrace.core.states import State
from headrace.core.verdict import Verdict, mistaken
from headrace.middleware import Around, Inside
from headrace.worker.apart import Apart, EndedApart
from headrace.worker.children import NoChildError
from headrace.worker.ending import Reporter
from headrace.worker.polls import answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work
from headrace.worker.threads import NotBegunError, NoThreadError, ThreadCall, ThreadPool
from headrace.worker.timers import is_over, start_timer, stop_timer, timeout_of
from headrace.worker.twice import twice

logger = logging.getLogger("headrace.worker")

LATE_US = 2_000_000  # a job whose handler outlives the worker's grace is due again after this


def interrupted(work: Work) -> endings.Ending | None:
    """How a run ends that was asked to; None for one that was not."""
    match work.interruption:
        case "timeout":
            return endings.TimedOut(timeout_of(work) or 0.0, work.started_us, work.stack)
        case "cancel":
            return endings.CancelledByUser()
        case "shutdown" | "lost":
            return endings.Released(started=work.started_us is not None)
    return None


class Runs:
    """Runs one prepared job at a time, each in an asyncio task of its own."""

    def __init__(
        self, shared: Shared, reporter: Reporter, threads: ThreadPool, apart: Apart, leave_slot: Callable[[], object]
    ) -> None:
        self._shared = shared
        self._reporter = reporter
        self._threads = threads
        self._apart = apart
        self._leave_slot = leave_slot
        self._around = Around(shared.middleware)
        self._inside = Inside(shared.middleware)

    def run(self, work: Work) -> Coroutine[Any, Any, None]:
        """To be awaited: to its end, which is reported, and its slot left."""
        assert work.task is not None
        if work.task.run_in == "process":
            return self._run_apart(work)
        return self._run_async(work) if work.task.is_async else self._run_in_thread(work)

    async def _run_async(self, work: Work) -> None:
        assert work.task is not None
        function = work.task.handler

        def call() -> Awaitable[Any]:
            # its circuit may have opened since its dispatch, in the same round of the loop or while middleware waited
            if work.gate is not None and work.gate.begun_at is None and self._shared.gates.ending(work) is not None:
                raise NotBegunError
            self._shared.gates.begin(work)
            return self._inside.acall(work.context, function, work.kwargs)

        start_timer(work)
        try:
            ending = await self._outcome_of(work, call)
        finally:
            stop_timer(work)
        await self._finish(work, ending)

    async def _outcome_of(self, work: Work, call: Callable[[], Awaitable[Any]]) -> endings.Ending:
        """Await the handler (inside its middleware) and name how it ended. Nothing escapes (B010, B107)."""
        assert work.task is not None
        if (ending := interrupted(work)) is not None:
            return ending  # between its dispatch and this first step
        work.started_us = self._shared.store_time.now_us()
        try:
            enter(work.context)
            value = await self._with_middleware(work, call)
        except Verdict as verdict:
            return endings.Decided(verdict, work.started_us)
        except (NotBegunError, NoThreadError, NoChildError) as error:
            delay_us = 0 if isinstance(error, NotBegunError) else LATE_US
            return interrupted(work) or self._shared.gates.ending(work) or endings.Released(delay_us)
        except EndedApart as error:
            return interrupted(work) or error.ending
        except BaseException as error:  # noqa: BLE001 - MemoryError, SystemExit: they end this attempt only
            # whatever a handler makes of its cancellation, a deploy costs no attempt (B024)
            return interrupted(work) or endings.Raised(error, work.started_us)
        if work.interruption == "timeout" or (work.task.is_async and is_over(work)):
            self._warn("job %s returned after its timeout: what it did stands", work)
        return self._returned(work, value)

    def _warn(self, text: str, work: Work) -> None:
        """From the loop: a filter of the application's that raises must not cost the run its end."""
        line = partial(logger.warning, text, work.job.id, extra=work.describe())
        asyncio.get_running_loop().call_soon(line)

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
        run = twice(call, work) if self._shared.options.twice else call
        return await self._around.wrap(work.context, run)()

    async def _finish(self, work: Work, ending: endings.Ending) -> None:
        """Its run is over, and so is the job, unless its handler has ended that itself."""
        self._shared.gates.feedback.note(work, ending)
        if work.close():
            self._leave_slot()
            await self._reporter.look(work, ending)
            return
        try:
            self._reporter.end(work, ending)
        finally:
            self._leave_slot()

    async def _run_apart(self, work: Work) -> None:
        """In a child process. That can be killed, and its death is awaited in here: no second attempt is beside it."""
        try:
            ending = await self._outcome_of(work, lambda: self._apart.call(work))
        finally:
            stop_timer(work)
        await self._finish(work, ending)

    # -- in a thread

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
            if work.interruption or self._shared.in_doubt(work) or self._shared.gates.ending(work):
                raise NotBegunError
            self._shared.gates.begin(work)
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
        reporter = self._reporter
        self._shared.gates.feedback.note(work, ending)
        self._threads.abandon(thread, replace=work.interruption != "shutdown")
        outcome = reporter.conclude(work, ending)
        if work.interruption == "shutdown" and work.forestall():
            reporter.report(work, reporter.conclude(work, endings.Released(LATE_US, started=True)))
            self._leave_slot()
        elif outcome.state is State.FAILED and not work.keeps_others_out and work.forestall():
            reporter.report(work, outcome)
            self._leave_slot()
        else:
            self._leave_slot()
            await self._wait_for_thread(work, thread, ending)

    async def _wait_for_thread(self, work: Work, thread: ThreadCall, ending: endings.Ending) -> None:
        if work.interruption == "timeout":
            text = "job %s overran its timeout in a thread; whatever comes next waits for the thread"
            logger.warning(text, work.job.id, extra=work.describe())
        work.interruption = ""
        reporter, late = self._reporter, asyncio.current_task()
        reporter.late.add(late)
        outcome = None
        try:
            await asyncio.shield(thread.done)
        except asyncio.CancelledError:
            # the process is about to end, and the thread with it; the timeout counts all the same
            outcome = reporter.conclude(work, ending)
            outcome = replace(outcome, delay_us=max(LATE_US, outcome.delay_us))
        finally:
            reporter.late.discard(late)
        if work.close():
            await reporter.look(work, ending)
        else:
            reporter.report(work, outcome or reporter.conclude(work, ending))
