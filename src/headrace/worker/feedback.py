"""What became of the runs that the gates have let in: told to circuits and retry budgets beside the settling.

Not with it: the reports of many workers meet in one register, and no job shall wait for that.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from headrace.circuits.standings import Standings
from headrace.core import endings
from headrace.core.budget import RetryBudget
from headrace.core.circuit import Result
from headrace.core.circuit_policy import MOST, CircuitPolicy
from headrace.core.registers import Amend, Change
from headrace.worker.gate_requests import GateRequests
from headrace.worker.passes import Pass
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work
from headrace.worker.unheard import Unheard

GATHER_S = 0.05  # good news of a closed circuit may wait so long for more


class Feedback:
    """Gathers it while a report is under way: one is sent at a time."""

    def __init__(self, shared: Shared, requests: GateRequests, standings: Standings) -> None:
        self._shared = shared
        self._requests = requests
        self._standings = standings
        self.answered: Callable[[], object] = lambda: None  # called when jobs may begin that `alarms` held up
        self._unheard = Unheard()
        self._calls: dict[tuple[str, int], deque[tuple[Pass, Result]]] = {}
        self._firsts: Counter[str] = Counter()
        self._unused: Counter[str] = Counter()
        self._budgets: dict[str, RetryBudget] = {}
        self._work, self._hurry, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._idle.set()

    def alarms(self, circuit: str, policy: CircuitPolicy) -> bool:
        """Whether what is not told yet may open it."""
        return self._unheard.alarms(circuit, policy)

    # -- from the loop's thread

    def note(self, work: Work, ending: endings.Ending) -> None:
        """What became of a job, the first time that this is known."""
        one = work.gate
        if one is None or one.noted:
            return
        one.noted = True
        self._note_call(one, one.result(ending, self._shared.monotonic()))
        if one.gate.budgets:
            self._note_spending(one, made=one.was_made(ending))

    def note_unused(self, register: str, budget: RetryBudget, retries: int) -> None:
        """So many were granted for nothing."""
        self._budgets[register] = budget
        self._unused[register] += retries
        self._note_work(hurry=False)

    def _note_call(self, one: Pass, result: Result) -> None:
        name, generation = one.gate.circuit, one.generation
        if name is None or generation is None or (result == "none" and not one.is_probe):
            return
        calls = self._calls.get((name, generation))
        if calls is None:
            most = MOST if one.gate.policy is None else max(one.gate.policy.window, one.gate.policy.probes)
            calls = self._calls[name, generation] = deque(maxlen=most)
        calls.append((one, result))
        self._unheard.note(name, result)
        self._note_work(hurry=one.is_probe or result != "ok")

    def _note_spending(self, one: Pass, *, made: bool) -> None:
        self._budgets |= one.gate.budgets
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

    # -- reports

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

    async def reported(self) -> None:
        """Wait until everything that was noted has been reported."""
        self._hurry.set()
        await self._idle.wait()

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
        changes: list[Change] = [self._requests.report(*key, made) for key, made in calls.items()]
        changes += [
            self._requests.report_spending(
                register, self._budgets[register], firsts=firsts[register], unused=unused[register]
            )
            for register in dict.fromkeys((*firsts, *unused))
        ]
        return tuple(changes), [name for name, _ in calls]

    async def _tell(self, amend: Amend, names: Sequence[str]) -> None:
        sent = self._shared.monotonic()
        backoff = Backoff(self._shared.rng)
        answers = await until_answered(lambda: self._attempt(amend), backoff, "reporting to circuits")
        try:
            for name, standing in zip(names, answers, strict=False):
                self._standings.learn(name, standing, sent)
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
