"""The gates before the handlers: circuits and retry budgets, asked about for all jobs of a claim together.

What is known of a circuit is kept for a moment, so that a closed one costs nothing and jobs of an open one are put
aside without a question. What became of the calls is told by `feedback`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.circuits import Circuit, CircuitOptions, QueueOptions, check_circuits
from headrace.circuits.looks import REASON
from headrace.circuits.standings import CLOSED_S, Standings, change
from headrace.core import budget, codec, endings, trail
from headrace.core.circuit import Standing, Transition
from headrace.core.registers import Amend
from headrace.errors import StoreFull, UnreadableEnvelope
from headrace.middleware import notice
from headrace.task import Task
from headrace.worker.feedback import Feedback
from headrace.worker.gate_requests import GateRequests
from headrace.worker.passes import Gate, Pass
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

RENEWALS = 3  # of a probe's permit within its lease


class Gates:
    """Lets claimed jobs pass or holds them back."""

    def __init__(self, shared: Shared, circuits: Mapping[str, Circuit], queues: Mapping[str, QueueOptions]) -> None:
        """Raises `ConfigError` where a task names a circuit that is not there."""
        check_circuits(shared.tasks, circuits)
        self._shared = shared
        self._circuits = circuits
        self._queues = queues
        self._gates: dict[tuple[str, str], Gate | None] = {}
        self._backoff = Backoff(shared.rng)
        self._passed = asyncio.Event()  # jobs with a circuit, some of which may not have begun yet
        self.standings = Standings(shared.monotonic, self._changed)
        self.requests = GateRequests(shared, circuits)
        self.feedback = Feedback(shared, self.requests, self.standings)

    # -- before a job runs

    async def admit(self, works: Sequence[Work]) -> None:
        """Give each job that has a circuit or a retry budget its `gate`, with what the store says to it."""
        if not self._queues and not any(task.circuit for task in self._shared.tasks.values()):
            return
        passes = [found for work in works if (found := self._pass(work)) is not None]
        asking, retrying = self._open_questions(passes)
        if asking or retrying:
            await self._ask(asking, retrying)
        self._passed.set()

    def ending(self, work: Work) -> endings.Ending | None:
        """How a job ends without being run. None: it may start, as far as is known at this moment."""
        held = self._shared.holds.ending(work)
        return held if held is not None or work.gate is None else work.gate.ending(self.standings)

    def in_doubt(self, work: Work) -> bool:
        """Whether it had better wait for an answer that is a moment away: its circuit may have opened."""
        one = work.gate
        if one is None or one.gate.circuit is None or one.gate.policy is None or one.is_probe:
            return False
        known = self.standings.get(one.gate.circuit)
        opens = known is None or known.standing.state != "forced_closed"
        return opens and self.feedback.alarms(one.gate.circuit, one.gate.policy)

    def begin(self, work: Work) -> None:
        """Its handler starts now."""
        if work.gate is not None:
            work.gate.begun_at = self._shared.monotonic()

    def _pass(self, work: Work) -> Pass | None:
        """None where nothing bounds it. What is wrong with a job is said by the steps that prepare it."""
        try:
            work.envelope = envelope = work.envelope or codec.decode(work.job.body)
        except UnreadableEnvelope:
            return None
        task = self._shared.tasks.get(envelope.task)
        gate = None if task is None else self._gate(task, work.job.queue)
        if gate is None:
            return None
        remembered = work.job.trail
        is_retry = remembered is not None and trail.decode(remembered).attempts > 0
        work.gate = Pass(gate, work.job, is_retry=is_retry)
        return work.gate

    def _gate(self, task: Task[..., Any], queue: str) -> Gate | None:
        key = (task.name, queue)
        if key not in self._gates:
            self._gates[key] = self._made(task.circuit, queue)
        return self._gates[key]

    def _made(self, name: str | None, queue: str) -> Gate | None:
        circuit = None if name is None else self._circuits.get(name)
        options = CircuitOptions() if circuit is None else circuit.options
        budgets = {f"{budget.REGISTERS}circuit:{name}": options.retry_budget} if name is not None else {}
        of_queue = self._queues.get(queue, QueueOptions())
        budgets[f"{budget.REGISTERS}queue:{queue}"] = of_queue.retry_budget
        found = {register: one for register, one in budgets.items() if one is not None}
        if name is None and not found:
            return None
        return Gate(name, None if circuit is None else circuit.policy, options, found)

    def _open_questions(self, passes: Sequence[Pass]) -> tuple[dict[str, list[Pass]], dict[str, list[Pass]]]:
        """Passes by circuit and by budget, of those about whom what is known says too little."""
        asking: dict[str, list[Pass]] = {}
        retrying: dict[str, list[Pass]] = {}
        known = {name: self._known(name) for name in {one.gate.circuit for one in passes} if name is not None}
        for one in passes:
            name = one.gate.circuit
            if name is not None:
                said = known[name]
                if isinstance(said, endings.Parked):
                    one.refusal = said
                    continue
                if said is None:
                    asking.setdefault(name, []).append(one)
                else:
                    one.let_in(said)
            if one.is_retry:
                for register in one.gate.budgets:
                    retrying.setdefault(register, []).append(one)
        return asking, retrying

    def _known(self, name: str) -> Standing | endings.Parked | None:
        """As what its jobs are let in, or how they end. None: it must be asked."""
        known, now = self.standings.get(name), self._shared.monotonic()
        if known is None:
            return None
        if known.shuts(now):
            return endings.Parked(REASON + name)
        return known.standing if known.lets_all_in(now) else None

    async def _ask(self, asking: dict[str, list[Pass]], retrying: dict[str, list[Pass]]) -> None:
        questions = [self.requests.ask(name, passes) for name, passes in asking.items()]
        spending = [
            self.requests.ask_for_retries(register, passes[0].gate.budgets[register], passes)
            for register, passes in retrying.items()
        ]
        sent = self._shared.monotonic()
        try:
            answers = await self._answers(Amend((*questions, *spending)))
        except StoreFull as error:
            # a circuit is there to spare a dependency; a store that is full must be drained
            logger.warning("circuits cannot be asked, and let in all jobs of a claim: %s", error)
            return
        if not answers:  # the worker ends
            for one in (one for passes in (*asking.values(), *retrying.values()) for one in passes):
                one.refusal = endings.Released()
            return
        for (name, passes), admission in zip(asking.items(), answers, strict=False):
            self.standings.learn(name, admission.standing, sent)
            for one in passes:
                if one.call not in admission.admitted:
                    one.refusal = endings.Parked(one.gate.reason)
                else:
                    one.let_in(admission.standing)
        for (register, passes), granted in zip(retrying.items(), answers[len(asking) :], strict=True):
            self._grant(register, passes, granted)

    async def _answers(self, amend: Amend) -> list[Any]:
        """Empty when the worker ends before there are any: the jobs are held, and wait until the store is back."""
        while not self._shared.stopping:
            try:
                answers = await self._shared.driver.arun(amend)
            except StoreFull:
                raise
            except Exception as error:  # noqa: BLE001 - logged by pause()
                await self._shared.either(self._backoff.pause(error, "asking circuits"))
            else:
                self._backoff.reset()
                return answers
        return []

    def _grant(self, register: str, passes: Sequence[Pass], granted: int) -> None:
        """Retries go to those that their circuit has let in; what is left over is given back."""
        of_register = passes[0].gate.budgets[register]
        let_in = [one for one in passes if one.refusal is None]
        for one in let_in[:granted]:
            one.granted.add(register)
        for one in let_in[granted:]:
            one.refusal = endings.OverBudget(of_register.window_us)
        if granted > len(let_in):
            self.feedback.note_unused(register, of_register, granted - len(let_in))

    # -- while jobs wait for a slot, a thread or a child process

    async def keep_known(self) -> None:
        """Hear again and again how the circuits stand of jobs that have not begun yet. Until cancelled.

        Else the answer to the claim would hold for as long as they wait, while the calls of others have opened one.
        """
        while True:
            await self._passed.wait()
            self._passed.clear()
            await asyncio.sleep(CLOSED_S)
            names = self._awaited()
            if names:
                self._passed.set()
                await self._learn(
                    Amend(tuple(self.requests.ask(name, ()) for name in names)), names, "looking at circuits"
                )

    def _awaited(self) -> list[str]:
        """Circuits of jobs that may begin, as far as is known. A probe that waits is kept by `keep_probes`."""
        passes = [work.gate for work in self._shared.table.works() if not work.ended]
        return list(dict.fromkeys(str(one.gate.circuit) for one in passes if one is not None and one.may_begin))

    # -- probes that run on

    async def keep_probes(self) -> None:
        """Extend the permits of probes while their jobs run. Until cancelled."""
        while True:
            await asyncio.sleep(self._shared.lease_us / RENEWALS / 1_000_000)
            asking: dict[str, list[Pass]] = {}
            for work in self._shared.table.works():
                one = work.gate
                if one is not None and one.is_probe and not one.noted and self._is_probing(one):
                    asking.setdefault(str(one.gate.circuit), []).append(one)
            if asking:
                questions = Amend(tuple(self.requests.ask(name, passes) for name, passes in asking.items()))
                await self._learn(questions, list(asking), "extending permits")

    async def _learn(self, questions: Amend, names: Sequence[str], doing: str) -> None:
        sent, backoff = self._shared.monotonic(), Backoff(self._shared.rng)
        answers = await until_answered(lambda: self._shared.driver.arun(questions), backoff, doing)
        for name, admission in zip(names, answers, strict=True):
            self.standings.learn(name, admission.standing, sent)

    def _is_probing(self, one: Pass) -> bool:
        known = self.standings.get(str(one.gate.circuit))
        return known is not None and known.standing.generation == one.generation

    def _changed(self, name: str, transition: Transition) -> None:
        notice(self._shared.middleware, change(name, transition))
