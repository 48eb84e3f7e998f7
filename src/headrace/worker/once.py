"""Takes the once records of claimed jobs, those of one claim together, before any of them runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from headrace.core import codec, endings, keys, once, trail
from headrace.core.once_records import OnceClaim, OnceTaken, TakeOnce
from headrace.core.operations import Outcome
from headrace.core.states import State
from headrace.errors import InvalidArguments, StoreFull, StoreMisconfigured, StoreUnavailable, UnreadableEnvelope
from headrace.worker.guard import Guard
from headrace.worker.retrying import Backoff
from headrace.worker.shared import Shared
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

_MARK = b'"once_key"'  # stands in each message with a key, however it is spaced


class Guards:
    """Finds the once keys of jobs, and takes their records."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._backoff = Backoff(shared.rng)

    async def take(self, works: Sequence[Work]) -> None:
        """Give each job that has a once key its `guard`."""
        guarded = any(task.once is not None for task in self._shared.tasks.values())
        for work in works:
            if guarded or _MARK in work.job.body:
                work.guard = self._guard(work)
        found = [(work, work.guard) for work in works if work.guard is not None and not work.guard.problem]
        if found:
            answers = await self._ask([guard.claim(work.job) for work, guard in found])
            for (work, guard), answer in zip(found, answers, strict=bool(answers)):
                said = {"problem": answer} if isinstance(answer, str) else {"taken": answer}
                work.guard = msgspec.structs.replace(guard, **said)

    def _guard(self, work: Work) -> Guard | None:
        """None where there is no key. What else is wrong with a job is said by the steps that prepare it."""
        try:
            work.envelope = envelope = work.envelope or codec.decode(work.job.body)
        except UnreadableEnvelope:
            return None
        task = self._shared.tasks.get(envelope.task)
        if task is None or (task.once is None and envelope.once_key is None):
            return None
        scope, key, policy = once.task_scope(task.name), envelope.once_key, task.once or once.Once("-")
        try:
            print_ = once.fingerprint(envelope.args)
            if key is None:  # enqueued by another program, or before the task had one
                key = policy.render({**task.arguments.defaults, **task.arguments.decode(envelope.args)})
            return Guard(scope, keys.checked(key, "once"), policy, print_)
        except BaseException as error:  # noqa: BLE001 - a validator of the user's may raise anything, SystemExit too
            return Guard(scope, key or "", policy, problem=f"its once key cannot be made: {error}")

    async def _ask(self, claims: Sequence[OnceClaim]) -> list[OnceTaken | str]:
        """An answer for each, or what the store has against it; none when the worker ends before there are any."""
        while not self._shared.stopping:
            try:
                return [*await self._shared.driver.arun(TakeOnce(tuple(claims)))]
            except (StoreUnavailable, StoreFull, StoreMisconfigured) as error:
                # the jobs are held: they wait until the store is back
                await self._shared.either(self._backoff.pause(error, "taking once records"))
            except Exception as error:  # noqa: BLE001 - one that the store refuses must not hold up the others
                if len(claims) == 1:
                    return [f"its once key cannot be stored: {error}"]
                answers = [answer for claim in claims for answer in await self._ask([claim])]
                return answers if len(answers) == len(claims) else []
        return []


def end_record(work: Work, ending: endings.Ending, outcome: Outcome) -> Outcome:
    """The outcome with what becomes of the job's once record. One that goes back needs no word: its record is free."""
    guard = work.guard
    assert guard is not None
    if isinstance(ending, endings.Succeeded):
        end = guard.done(_result(work, ending.value))
    elif outcome.state is State.FAILED and _has_run(work, ending):
        last = trail.decode(outcome.trail).history[-1]
        end = guard.failed(last.type, last.message)
    else:
        end = None
    return outcome if end is None else msgspec.structs.replace(outcome, once=end)


RAN = (endings.Raised, endings.RaisedElsewhere, endings.Crashed, endings.TimedOut, endings.Decided)


def _has_run(work: Work, ending: endings.Ending) -> bool:
    """Whether it may have had an effect: now, or in a claim before, as where it has killed its workers."""
    return isinstance(ending, RAN) or (work.trail is not None and work.trail.has_started)


class Unkept(msgspec.Struct, frozen=True):
    """In the place of a result in another process that cannot be kept: why not."""

    problem: str


def _result(work: Work, value: object) -> bytes | None:
    """As it is kept. One that cannot be is not: the effect has happened."""
    problem = value.problem if isinstance(value, Unkept) else ""
    try:
        if not problem:
            return once.encode_result(value)
    except InvalidArguments as error:
        problem = str(error)
    text = "job %s succeeded, but its result cannot be kept under its once key: %s"
    logger.warning(text, work.job.id, problem, extra=work.describe())
    return None
