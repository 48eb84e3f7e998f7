"""A service behind a circuit in the simulator: down for stretches, and who calls it nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Literal, Protocol

from headrace.app import Headrace
from headrace.context import current_job
from headrace.core.backoff import Exponential
from headrace.core.budget import RetryBudget
from headrace.core.circuit import REGISTERS, AskCircuit, ForceCircuit, ReportCalls, Standing
from headrace.core.registers import Amend
from headrace.core.retry import Retry
from headrace.task import Task

CALL = "call"
SERVICE = "service"
REGISTER = REGISTERS + SERVICE
OPEN_S, PROBES, REFILL = 3, 2, 5


class ServiceDownError(Exception):
    """The service does not answer."""


ERRORS = (ServiceDownError, TimeoutError)


class Caller(Protocol):
    """The process in which a handler calls."""

    def reach(self, job: str, token: int) -> bool:
        """A call of the service by a run of `job`: whether it answers."""
        ...

    def done(self, job: str) -> None:
        """A run of the job came to its own end."""
        ...


def define_call(
    app: Headrace,
    caller: Caller,
    act: Callable[[list[str]], Awaitable[Any]],
    timeout_s: float,
    budget: RetryBudget | None,
) -> Task[..., Any]:
    """Register the circuit and the task that calls."""
    app.circuit(
        SERVICE,
        window=10,
        minimum=3,
        open_for=OPEN_S,
        probes=PROBES,
        refill=REFILL,
        record=ERRORS,
        retry_budget=budget,
    )

    async def call(steps: list[str]) -> Any:
        job = current_job()
        if not caller.reach(job.id, job.token):
            await asyncio.sleep(0.05)
            caller.done(job.id)
            raise ServiceDownError
        return await act(steps)

    retry = Retry(max_attempts=6, backoff=Exponential(base=0.5, cap=4))
    return app.task(name=CALL, circuit=SERVICE, timeout=timeout_s, retry=retry)(call)


def draw_stretches(rng: Random, until_s: float) -> tuple[tuple[float, float], ...]:
    """When the service is down."""
    starts = [rng.random() * until_s * 0.8 for _ in range(rng.choice((1, 1, 2)))]
    return tuple((start, start + rng.choice((2.0, 10.0, 20.0))) for start in sorted(starts))


def force(to: Literal["forced_open", "forced_closed", "closed"]) -> Amend:
    """What an operator does."""
    return Amend((ForceCircuit(register=REGISTER, by="operator", to=to, why="as written"),))


class CircuitWatch:
    """How the circuit stands in the store at this moment, and whom it has let in, by the answers that it gave."""

    def __init__(self, broken: Callable[[str, str, str], None]) -> None:
        self._broken = broken
        self.state = "closed"
        self.generation = 1
        self.opened = 0  # how often
        self.probes = 0  # calls that began as such
        self.in_vain = 0  # calls while the service was down
        self.paced_s: list[float] = []  # calls while there was a pace
        self._slowed = False
        self._closed = 1  # the last generation in which it was closed
        self._out: dict[str, float] = {}  # probes that have not come back -> when they are given up, at the earliest
        self._ended: dict[int, float] = {}  # generation -> when the next one began
        self._admitted: dict[str, int] = {}  # call -> generation in which the store has let it in

    @property
    def is_closed(self) -> bool:
        """Whether it lets calls in."""
        return self.state in ("closed", "forced_closed")

    def amended(self, operation: Amend, answers: list[Any], now_s: float) -> None:
        """Changes of registers, which have just taken place."""
        for change, answer in zip(operation.changes, answers, strict=True):
            if change.register != REGISTER:
                continue
            standing = answer if isinstance(answer, Standing) else answer.standing
            self._stands(standing, now_s)
            if isinstance(change, AskCircuit):
                self._admitted |= dict.fromkeys(answer.admitted, standing.generation)
                self._check_probes(answer.admitted, change.lease_us, now_s)
            elif isinstance(change, ReportCalls):
                for call, _ in change.calls:
                    self._out.pop(call, None)

    def _check_probes(self, admitted: frozenset[str], lease_us: int, now_s: float) -> None:
        """B162: no more than so many at once. A clock that jumps ends a lease sooner, but hardly by half of it."""
        if self.state != "half_open":
            self._out = {}
            return
        self._out = {call: until_s for call, until_s in self._out.items() if until_s > now_s}
        self._out |= dict.fromkeys(admitted, now_s + lease_us / 2_000_000)
        if len(self._out) > PROBES:
            self._broken("probes", "", f"{', '.join(sorted(self._out))} were let in at once")

    def _stands(self, standing: Standing, now_s: float) -> None:
        for generation in range(self.generation, standing.generation):
            self._ended[generation] = now_s
            self._out = {}
        self.opened += sum(step.after == "open" for step in standing.transitions)
        self.state, self.generation, self._slowed = standing.state, standing.generation, standing.slowed
        if self.is_closed:
            self._closed = standing.generation

    def wrong_call(self, job: str, token: int, now_s: float, late_s: float) -> str:
        """What is wrong with a call that begins now. What was let in may be `late_s` on its way."""
        if self.is_closed:
            self.paced_s += [now_s] if self._slowed else []
            return ""
        let_in = self._admitted.get(f"{job}:{token}", self._closed)  # nobody asks while it is known to be closed
        if let_in == self.generation:
            self.probes += 1
            return "" if self.state == "half_open" else f"was let in by a circuit that is {self.state}"
        late = now_s - self._ended[let_in]
        if late <= late_s:
            return ""
        return f"calls a service whose circuit is {self.state}, {late:.3f} s after it was let in by one that was not"
