"""Runs handlers of tasks with run_in="process", each in a child process of its own meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.core import endings
from headrace.core.errortext import ErrorText
from headrace.core.verdict import RetryIn, Snooze, Verdict
from headrace.errors import ChildError
from headrace.worker.once import Unkept
from headrace.worker.shared import Shared
from headrace.worker.table import Work
from headrace.worker.threads import NotBegunError
from headrace.worker.timers import start_timer

if TYPE_CHECKING:
    from headrace.worker.children.child import Child, Run
    from headrace.worker.children.messages import Answer, Decided, Job
    from headrace.worker.children.pool import Pool

AT_ONCE = ("shutdown", "lost")  # reasons to stop that leave no time: the worker ends, or the job is another's


class EndedApart(ChildError):
    """How a run in a child process ended, on its way through the middleware around it."""

    def __init__(self, ending: endings.Ending, text: ErrorText) -> None:
        super().__init__(*text)
        self.ending = ending


class Apart:
    """The children of one worker, which has none until a job asks for one."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._pool: Pool | None = None

    @property
    def pids(self) -> list[int]:
        """Of the child processes that live."""
        return [] if self._pool is None else self._pool.pids

    async def call(self, work: Work) -> Any:
        """Run its handler, as soon as a child is free. Returns once no part of it runs any more.

        Raises:
            EndedApart: it has raised, or has ended its process, of itself or since it was killed.
            NoChildError: no child could be started. NotBegunError: it is not wanted any more.
        """
        pool = self._ready_pool()
        async with pool.child() as child:
            if work.interruption or self._shared.in_doubt(work) or self._shared.gates.ending(work):
                raise NotBegunError
            self._shared.gates.begin(work)
            run = child.begin(lambda number: _job(work, number), work.context)
            pool.watch()
            start_timer(work)
            end = await self._end_of(work, child, run)
            if _cut_short(work, end):
                child.spent = True
                why = f"it returned without having noticed its {work.interruption}"
                raise EndedApart(endings.Released(started=True), ErrorText("JobInterrupted", why, ""))
        return _value(work, end)

    async def _end_of(self, work: Work, child: Child, run: Run) -> Answer | Exception:
        options = self._shared.options

        def stop(why: str) -> None:
            child.stop(why, self._hurry_s if why in AT_ONCE else options.soft_grace)

        work.stop = stop
        try:
            return await asyncio.shield(run.done)
        except asyncio.CancelledError:  # the process is about to end
            child.kill()
            await asyncio.wait({run.done}, timeout=1.0)
            raise
        finally:
            work.stop, work.stack = None, run.stack

    def _ready_pool(self) -> Pool:
        if self._pool is None:
            from headrace.worker.children.pool import Pool  # noqa: PLC0415 - most workers need no multiprocessing

            self._pool = Pool(self._shared.options, self._shared.tasks, self._shared.middleware)
        return self._pool

    @property
    def _hurry_s(self) -> float:
        from headrace.worker.children.pool import HURRY_S  # noqa: PLC0415

        return min(HURRY_S, self._shared.options.soft_grace)

    def hasten(self) -> None:
        """The worker ends: what runs must stop at once, whatever it is stopping for already."""
        if self._pool is not None:
            self._pool.hasten()

    async def close(self) -> None:
        """End all children, and wait for their death."""
        if self._pool is not None:
            await self._pool.close()


def _cut_short(work: Work, end: Answer | Exception) -> bool:
    """Whether it returned only because the signal that was to stop it has ended what it was waiting for.

    As a library does that holds the interpreter: the handler never learns that it was not done.
    """
    from headrace.worker.children import messages as say  # noqa: PLC0415

    return bool(work.interruption) and isinstance(end, (say.Returned, say.Decided)) and not end.told


def _job(work: Work, number: int) -> Job:
    import msgspec  # noqa: PLC0415

    from headrace.worker.children.messages import Job  # noqa: PLC0415

    task, context = work.task, work.context
    assert task is not None
    assert context is not None
    return Job(
        number,
        task.function.__module__,
        task.function.__qualname__,
        task.name,
        context.id,
        context.queue,
        context.attempt,
        context.token,
        context.enqueued_us,
        msgspec.Raw(work.job.body),
        context.deadline_us,
        context.once_key,
        context.once_fence,
        result=work.guard is not None,
    )


def _value(work: Work, end: Answer | Exception) -> Any:
    """What the handler returned, as far as anybody keeps it, or its verdict."""
    from headrace.worker.children import messages as say  # noqa: PLC0415

    match end:
        case say.Returned(result=result, problem=problem):
            return Unkept(problem) if problem else result
        case say.Decided():
            return _verdict(end)
        case say.Misfit(problem=problem):
            raise EndedApart(endings.BadArguments(problem), ErrorText("InvalidArguments", problem, ""))
        case say.Raised(error=kind, message=message, traceback=trace):
            text_of = ErrorText(kind, message, trace)
            ending = endings.RaisedElsewhere(text_of, work.started_us, end.retry_after_us, end.rule, end.classes)
            raise EndedApart(ending, text_of)
    how = str(end)
    raise EndedApart(endings.Crashed(how, work.started_us), ErrorText("ChildLost", how, ""))


def _verdict(end: Decided) -> Verdict:
    from headrace.worker.children.messages import VERDICTS  # noqa: PLC0415

    kind = VERDICTS[end.verdict]
    return kind(end.delay_us / 1_000_000, end.why) if kind in (RetryIn, Snooze) else kind(end.why)
