"""Tasks that are held, in the worker: what is parked for that, what is reported, and what is given back.

What is held is known from the registers, looked at now and then; see core/hold.py for the rules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from headrace.core import codec, endings, trail
from headrace.core.hold import (
    BURST,
    RATE,
    REGISTERS,
    Convict,
    Convicted,
    Hold,
    NoteRun,
    OfferHeld,
    Suspicion,
    TryAnother,
    decode,
    frees,
    pace_of,
    reason_of,
    register_of,
)
from headrace.core.operations import Outcome
from headrace.core.registers import Amend, LookRegisters
from headrace.core.states import State
from headrace.core.wording import counted
from headrace.errors import UnreadableEnvelope
from headrace.middleware import notice
from headrace.signals import TaskFreed, TaskHeld
from headrace.task import Task
from headrace.worker.parked import Coming
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

LOOK_S = 5.0  # between two looks at what is held
CHILD_LOST = "ChildLost"


class Holds:
    """Which tasks workers of this version park."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._backoff = Backoff(shared.rng)
        self._held: frozenset[str] = frozenset()
        self._convictions: list[Convict] = []
        self._hurry, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()

    # -- before a job runs

    def ending(self, work: Work) -> endings.Ending | None:
        """How a job ends without being run. None: its task is not held, as far as is known at this moment."""
        if not self._held:
            return None
        task = work.task or self._task_of(work)
        if task is None or task.name not in self._held:
            return None
        return endings.Parked(reason_of(task.name, self._shared.version))

    def _task_of(self, work: Work) -> Task[..., object] | None:
        """What is wrong with a job is said by the steps that prepare it."""
        try:
            work.envelope = work.envelope or codec.decode(work.job.body)
        except UnreadableEnvelope:
            return None
        return self._shared.tasks.get(work.envelope.task)

    async def may_run(self, work: Work) -> bool:
        """Before a suspect runs alone: note that it does, and under which version, so that a death has a name.

        False where its task is held, as only now is known, and where the worker ends before there is an answer.
        """
        task = work.task or self._task_of(work)
        if task is None or self._after(task) is None:
            return True
        note = NoteRun(register=register_of(task.name), task=task.name, version=self._shared.version, job=work.job.id)
        while not self._shared.stopping:
            try:
                (may,) = await self._shared.driver.arun(Amend((note,)))
            except Exception as error:  # noqa: BLE001 - logged by pause()
                await self._shared.either(self._backoff.pause(error, "noting a suspect"))
                continue
            self._backoff.reset()
            if not may:
                self._held |= {task.name}
            return bool(may)
        return False

    def _after(self, task: Task[..., object]) -> int | None:
        return self._shared.hold_after if task.hold_after == "app" else task.hold_after

    # -- after a conviction

    def note(self, work: Work, outcome: Outcome) -> None:
        """Count a job that was convicted of killing its workers. From the loop's thread."""
        if outcome.state is not State.FAILED or outcome.reason != "crashed" or work.task is None:
            return
        task, after = work.task.name, self._after(work.task)
        if after is None:
            return
        history = trail.decode(outcome.trail).history
        # a child process ran under the worker's own version; a worker that is dead, under one that it has noted
        ran = bool(history) and history[-1].type == CHILD_LOST
        self._convictions.append(
            Convict(
                register=register_of(task),
                task=task,
                version=self._shared.version,
                job=work.job.id,
                after=after,
                ran=ran,
            )
        )
        self._idle.clear()
        self._hurry.set()

    @property
    def pending(self) -> bool:
        """Whether convictions wait to be counted."""
        return bool(self._convictions)

    async def reported(self) -> None:
        """Wait until all convictions have been counted."""
        await self._idle.wait()

    async def watch(self) -> None:
        """Report convictions, and look at what is held. Until cancelled."""
        while True:
            await self._report()
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S * (0.75 + 0.5 * self._shared.rng.random())):
                    await self._hurry.wait()
            self._hurry.clear()

    async def look(self) -> None:
        """Learn what is held."""
        views = await until_answered(
            lambda: self._shared.driver.arun(LookRegisters(REGISTERS)), self._backoff, "looking at held tasks"
        )
        self.learn([hold for view in views if (hold := decode(view.body)) is not None])

    async def _report(self) -> None:
        while self._convictions:
            batch = tuple(self._convictions)
            answers: list[Convicted] = await until_answered(
                lambda: self._shared.driver.arun(Amend(batch)),  # noqa: B023 - awaited before the next batch
                self._backoff,
                "counting convictions",
            )
            del self._convictions[: len(batch)]
            for convict, answer in zip(batch, answers, strict=True):
                if answer.new:
                    self._tell(convict.task, answer)
        self._idle.set()

    def _tell(self, task: str, answer: Convicted) -> None:
        under = f" under version {answer.version}" if answer.version else ""
        logger.error(
            "task %s is held%s: %s of it killed their workers. Its other jobs are parked until another version runs, "
            "or until `headrace hold release %s`",
            *(task, under, counted(answer.crashes, "job"), task),
            extra={"task": task},
        )
        notice(self._shared.middleware, TaskHeld(task, answer.version, answer.crashes, self._shared.id))

    def learn(self, holds: Sequence[Hold]) -> None:
        """What the registers say."""
        version = self._shared.version
        self._held = frozenset(hold.task for hold in holds if hold.under(version).held)

    def is_held(self, task: str) -> bool:
        """Whether workers of this version park its jobs."""
        return task in self._held


class OfHolds:
    """The policy of jobs that are parked since their task is held: at a pace, those that are not held here go on."""

    def __init__(self, shared: Shared, holds: Holds) -> None:
        self._shared = shared
        self._holds = holds
        self._asked = 0

    async def __call__(self, reasons: Sequence[str]) -> Coming:
        """Which of them are free: by an operator, or for this version."""
        views = await self._shared.driver.arun(LookRegisters(REGISTERS))
        holds = [hold for view in views if (hold := decode(view.body)) is not None]
        self._holds.learn(holds)
        held = {
            reason_of(hold.task, one.version): (hold.task, one) for hold in holds for one in hold.versions if one.held
        }
        free = [reason for reason in reasons if reason not in held or self._is_for_us(*held[reason])]
        if not free:
            return Coming({}, LOOK_S)
        await self._try([held[reason] for reason in free if reason in held and not held[reason][1].tried_by])
        offers = tuple(OfferHeld(register=pace_of(reason)) for reason in free)
        counts = await self._shared.driver.arun(Amend(offers))
        return Coming(dict(zip(free, counts, strict=True)), BURST / RATE, soon=True)

    def _is_for_us(self, task: str, one: Suspicion) -> bool:
        """Whether this worker's code is another, which knows the task and has not been convicted as well."""
        known = self._shared.tasks.get(task)
        return known is not None and frees(self._shared.version, one.version) and not self._holds.is_held(task)

    async def _try(self, found: Sequence[tuple[str, Suspicion]]) -> None:
        """Say once of each that it runs again."""
        if not found:
            return
        self._asked += 1
        by = f"{self._shared.id}:{self._asked}"
        changes = tuple(
            TryAnother(register=register_of(task), task=task, version=one.version, by=by) for task, one in found
        )
        answers = await self._shared.driver.arun(Amend(changes))
        for (task, one), news in zip(found, answers, strict=True):
            if news:
                under = f" under version {one.version}" if one.version else ""
                text = "task %s, which is held%s, is tried again under version %s: its parked jobs go on at a pace"
                logger.warning(text, task, under, self._shared.version, extra={"task": task})
                notice(self._shared.middleware, TaskFreed(task, one.version, self._shared.id))
