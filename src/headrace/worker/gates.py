"""The gates before the handlers: circuits and retry budgets, asked about for all jobs of a claim together.

What is known of a circuit is kept for a moment, so that a closed one costs nothing and jobs of an open one are put
aside without a question. What became of the calls is reported beside the settling, not with it: the reports of many
workers meet in one register, and no job shall wait for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headrace.circuits import Circuit, CircuitOptions, QueueOptions, check_circuits
from headrace.circuits.looks import REASON
from headrace.circuits.standings import CLOSED_S, Standings, change
from headrace.core import budget, codec, endings, trail
from headrace.core.circuit import REGISTERS, AskCircuit, ReportCalls, Result, Standing, Transition
from headrace.core.circuit_policy import MOST, CircuitPolicy
from headrace.core.registers import Amend, Change
from headrace.errors import StoreFull, UnreadableEnvelope
from headrace.middleware import notice
from headrace.task import Task
from headrace.worker.passes import Gate, Pass
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work
from headrace.worker.unheard import Unheard

logger = logging.getLogger("headrace.worker")

GATHER_S = 0.05  # good news of a closed circuit may wait so long for more
RENEWALS = 3  # of a probe's permit within its lease


class Gates:
    """Lets claimed jobs pass or holds them back, and reports what became of them."""

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
        self.answered: Callable[[], object] = lambda: None  # called when jobs may begin that `in_doubt` held up
        # -- what is to be reported
        self._unheard = Unheard()
        self._calls: dict[tuple[str, int], deque[tuple[Pass, Result]]] = {}
        self._firsts: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._budgets: dict[str, budget.RetryBudget] = {}
        self._requests = 0
        self._prefix = f"{shared.rng.getrandbits(40):x}-"
        self._work, self._hurry, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()

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
        return opens and self._unheard.alarms(one.gate.circuit, one.gate.policy)

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
        self._budgets |= found
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
        questions = [self._question(name, passes) for name, passes in asking.items()]
        spending = [self._spending(register, retries=len(passes)) for register, passes in retrying.items()]
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
        """None when the worker ends before there are any: the jobs are held, and wait until the store is back."""
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
        let_in = [one for one in passes if one.refusal is None]
        for one in let_in[:granted]:
            one.granted.add(register)
        for one in let_in[granted:]:
            one.refusal = endings.OverBudget(self._budgets[register].window_us)
        if granted > len(let_in):
            self._unused[register] += granted - len(let_in)
            self._note_work(hurry=False)

    def _question(self, name: str, passes: Sequence[Pass]) -> AskCircuit:
        return AskCircuit(
            register=REGISTERS + name,
            by=self._shared.id,
            policy=passes[0].gate.policy,
            request=self.request(),
            calls=tuple(one.call for one in passes),
            lease_us=self._shared.lease_us,
        )

    def _spending(self, register: str, *, retries: int = 0, firsts: int = 0, unused: int = 0) -> budget.SpendRetries:
        return budget.SpendRetries(
            register=register,
            request=self.request(),
            budget=self._budgets[register],
            retries=retries,
            firsts=firsts,
            unused=unused,
        )

    def request(self) -> str:
        """An id that no other request has."""
        self._requests += 1
        return f"{self._prefix}{self._requests:x}"

    # -- while jobs wait for a slot, a thread or a child process

    async def keep_known(self) -> None:
        """Hear again and again how the circuits stand of jobs that have not begun yet. Until cancelled.

        Else the answer to the claim would hold for as long as they wait, while the calls of others have opened one.
        """
        while True:
            await self._passed.wait()
            self._passed.clear()
            await asyncio.sleep(CLOSED_S)
            waiting = self._waiting()
            if waiting:
                self._passed.set()
                await self._look(waiting)

    def _waiting(self) -> dict[str, list[Pass]]:
        """Those that may begin as far as is known, by circuit. A probe that waits is kept by `keep_probes`."""
        found: dict[str, list[Pass]] = {}
        for work in self._shared.table.works():
            one = work.gate
            if one is not None and one.may_begin and not work.ended:
                found.setdefault(str(one.gate.circuit), []).append(one)
        return found

    async def _look(self, waiting: Mapping[str, Sequence[Pass]]) -> None:
        # without calls, a question admits nobody, and takes no part of a pace
        amend = Amend(tuple(replace(self._question(name, passes), calls=()) for name, passes in waiting.items()))
        await self._learn(amend, list(waiting), "looking at circuits")

    # -- after it has run

    def note(self, work: Work, ending: endings.Ending) -> None:
        """What became of it, the first time that this is known. From the loop's thread."""
        one = work.gate
        if one is None or one.noted:
            return
        one.noted = True
        result = one.result(ending, self._shared.monotonic())
        name, generation = one.gate.circuit, one.generation
        if name is not None and generation is not None and (one.is_probe or result != "none"):
            calls = self._calls.get((name, generation))
            if calls is None:
                most = MOST if one.gate.policy is None else max(one.gate.policy.window, one.gate.policy.probes)
                calls = self._calls[name, generation] = deque(maxlen=most)
            calls.append((one, result))
            self._unheard.note(name, result)
            self._note_work(hurry=one.is_probe or result != "ok")
        if one.gate.budgets:
            self._note_spending(one, made=one.was_made(ending))

    def _note_spending(self, one: Pass, *, made: bool) -> None:
        if made and not one.is_retry:
            self._firsts.update(one.gate.budgets.keys())
        elif not made:
            self._unused.update(one.granted)
        self._note_work(hurry=False)

    def _note_work(self, *, hurry: bool) -> None:
        if not self._work.is_set():
            self._work.set()
            self._idle.clear()
        if hurry:
            self._hurry.set()

    async def report(self) -> None:
        """Until cancelled: whatever was noted while the last report was under way goes with the next."""
        while True:
            await self._work.wait()
            await self._gather()
            changes, names = self._reports()
            if changes:
                await self._tell(Amend(changes), names)
            if not self._work.is_set():
                self._idle.set()

    async def _gather(self) -> None:
        try:
            async with asyncio.timeout(GATHER_S):
                await self._hurry.wait()
        except TimeoutError:
            return

    def _reports(self) -> tuple[tuple[Change, ...], list[str]]:
        """What has been noted, and the circuits that the first ones are about."""
        self._work.clear()
        self._hurry.clear()
        self._unheard.send()
        calls, self._calls = self._calls, {}
        firsts, self._firsts = self._firsts, Counter()
        unused, self._unused = self._unused, Counter()
        changes: list[Change] = [self._report(*key, made) for key, made in calls.items()]
        changes += [
            self._spending(register, firsts=firsts[register], unused=unused[register])
            for register in dict.fromkeys((*firsts, *unused))
        ]
        return tuple(changes), [name for name, _ in calls]

    def _report(self, name: str, generation: int, calls: Iterable[tuple[Pass, Result]]) -> ReportCalls:
        return ReportCalls(
            register=REGISTERS + name,
            by=self._shared.id,
            policy=self.policy(name),
            request=self.request(),
            generation=generation,
            calls=tuple((one.call, result) for one, result in calls),
        )

    def policy(self, name: str) -> CircuitPolicy | None:
        """When that circuit opens and closes. None: as the store says."""
        circuit = self._circuits.get(name)
        return None if circuit is None else circuit.policy

    async def _tell(self, amend: Amend, names: Sequence[str]) -> None:
        sent = self._shared.monotonic()
        backoff = Backoff(self._shared.rng)
        answers = await until_answered(lambda: self._attempt(amend), backoff, "reporting to circuits")
        try:
            for name, standing in zip(names, answers, strict=False):
                self.standings.learn(name, standing, sent)
        finally:  # a filter of the application's may raise, and no other report may come for those that wait
            self._unheard.answered()
            self.answered()

    async def _attempt(self, amend: Amend) -> list[Any]:
        try:
            return await self._shared.driver.arun(amend)
        except Exception:
            self._unheard.failed()
            self.answered()
            raise

    async def reported(self) -> None:
        """Wait until everything that was noted has been reported."""
        self._hurry.set()
        await self._idle.wait()

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
                await self._extend(asking)

    async def _extend(self, asking: dict[str, list[Pass]]) -> None:
        amend = Amend(tuple(self._question(name, passes) for name, passes in asking.items()))
        await self._learn(amend, list(asking), "extending permits")

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
