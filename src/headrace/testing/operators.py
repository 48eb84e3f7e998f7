"""Operators in the simulator: they replay all failed jobs, now and then two at once, and die in the middle of it.

What they do is `app.ajobs.replays`, as it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headrace.core.failures import FailedFilter
from headrace.errors import RepairError, StoreUnavailable
from headrace.testing.loop import Group

if TYPE_CHECKING:
    from headrace.testing.simulator import Simulation

IDLE_S = 8.0  # at most so long between two things that an operator does
LIFE_S = 25.0  # at most so long until one is killed


class Operator:
    """One after the other sits at this desk, in a process of its own; each dies sooner or later."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._number = number
        self._rng = simulation.rng(f"operator {number}")
        self._lives = 0
        self.groups: list[Group] = []

    def start(self) -> None:
        """Let one begin, and set the moment of death."""
        simulation = self._simulation
        self._lives += 1
        # no two of these names, with a number after them, are alike
        name = f"op{self._number}x{self._lives}y"
        group = Group(name)
        self.groups.append(group)
        group.start(simulation.loop, self._work(name)).add_done_callback(self._over)
        if simulation.loop.time() < simulation.scenario.chaos_s:
            simulation.later(self._rng.random() * LIFE_S, lambda: self._die(group))

    def _die(self, group: Group) -> None:
        if self._simulation.loop.time() < self._simulation.scenario.chaos_s:
            self._simulation.note(group.name, "killed")
            group.kill()
            self.start()

    def _over(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._simulation.ledger.broken("operators live", "", f"{error!r}")

    async def _work(self, name: str) -> None:
        simulation, rng = self._simulation, self._rng
        app = simulation.app(name)
        while not simulation.over:
            await asyncio.sleep(rng.random() * IDLE_S)
            try:
                await self._act(app.ajobs.replays)
            except (StoreUnavailable, RepairError) as error:
                simulation.note(name, f"{error}")

    async def _act(self, replays: Any) -> None:
        """Go on with what somebody has left behind, or begin anew. When faults have stopped nothing new begins."""
        rng = self._rng
        late = self._simulation.loop.time() >= self._simulation.scenario.chaos_s
        left = [run for run in await replays.list() if not run.ended]
        if left and (late or rng.random() < 0.6):
            await replays.drive(rng.choice(left).id)
        elif left and rng.random() < 0.2:
            await replays.cancel(rng.choice(left).id, by="operator")
        elif not late:
            canary, rate = rng.choice((0, 0, 1, 3)), rng.choice((None, None, 1.5))
            run = await replays.start(FailedFilter(), canary=canary, rate=rate, by="operator")
            await replays.drive(run.id)
