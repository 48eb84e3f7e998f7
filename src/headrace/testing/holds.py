"""A task in the simulator that kills every worker of the old code and none of the latest: what holding it promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from headrace.app import Headrace
from headrace.context import current_job
from headrace.core import operations as ops
from headrace.core.backoff import Fixed
from headrace.core.hold import BURST, RATE, Convict, Convicted, FreeTask, is_reason, reason_of, register_of
from headrace.core.parking import Unpark
from headrace.core.registers import Amend
from headrace.core.retry import Retry
from headrace.core.settle import is_suspect
from headrace.core.states import TERMINAL, State
from headrace.task import Task
from headrace.worker.holds import LOOK_S

if TYPE_CHECKING:
    from headrace.testing.simulator import Simulation

TOXIC = "toxic"
AFTER = 2  # jobs that are convicted, until the task is held
RETRY = Retry(max_crashes=2, backoff=Fixed(0.5))
_ENDS = {(State.SUCCEEDED, ""), (State.FAILED, "crashed"), (State.CANCELLED, "cancelled")}


class Eater(Protocol):
    """The process in which a handler runs."""

    def bears(self, job: str) -> bool:
        """A run of `job` begins: whether this version of the code bears it."""
        ...


def define_toxic(
    app: Headrace, eater: Eater, act: Callable[[list[str]], Awaitable[Any]], timeout_s: float
) -> Task[..., Any]:
    """Register the task."""

    async def toxic(seconds: float) -> Any:
        return await act([f"ok:{seconds}"] if eater.bears(current_job().id) else [f"poison:{seconds}"] * 30)

    return app.task(name=TOXIC, hold_after=AFTER, timeout=timeout_s, retry=RETRY)(toxic)


def free(by: str) -> Amend:
    """What an operator does, whatever version it is held under."""
    return Amend((FreeTask(register=register_of(TOXIC), task=TOXIC, version=None, by=by),))


class HoldWatch:
    """Under which versions the task is held in the store at this moment, and who starts, parks and frees its jobs."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.held: dict[str, float] = {}  # version -> since when
        self.convicted: dict[str, set[str]] = {}  # version -> jobs
        self.parked = 0
        self.back: list[tuple[float, int]] = []  # when how many were given back
        self._ever: set[str] = set()  # versions it was held under
        self._convicts: set[str] = set()
        self._rescued: set[str] = set()  # of those: the report of their end was lost with the worker that counted them
        self._freed = False  # whether an operator has freed it, so that what others know may be of before

    def happened(self, sender: str, operation: ops.Operation[Any], answer: Any) -> None:
        """An operation, which has just taken place."""
        match operation:
            case Amend(changes=changes):
                for change, told in zip(changes, answer, strict=True):
                    self._amended(change, told)
            case ops.Settle(outcomes=outcomes):
                for outcome, taken in zip(outcomes, answer, strict=True):
                    if taken:
                        self._was_settled(sender, outcome)
            case ops.Rescue():
                self._rescued |= self._convicts & {orphan.id for orphan in answer.jobs}
            case Unpark(reason=reason) if answer and is_reason(reason):
                self._came_back(sender, reason, answer)

    def _amended(self, change: object, told: Any) -> None:
        if isinstance(change, Convict):
            self._was_convicted(change.job, told)
        elif isinstance(change, FreeTask) and told:
            self._freed = True
            for version in told:
                self.held.pop(version, None)
                self.convicted.pop(version, None)

    def _was_convicted(self, job: str, told: Convicted) -> None:
        self._convicts.add(job)
        self.convicted.setdefault(told.version, set()).add(job)
        if told.new:
            self.held.setdefault(told.version, self._simulation.loop.time())
            self._ever.add(told.version)
        if told.held != (told.version in self.held):
            self._broken(job, f"is convicted under version {told.version}, which is said to be held: {told.held}")
        worker, _ = self._simulation.ledger.jobs[job].last_rescue
        killed = self._simulation.runs.killer_of(worker) == job
        if killed and self._simulation.scenario.calm and self._version_of(worker) != told.version:
            self._broken(job, f"has killed {worker}, and is convicted under version {told.version}")

    def _was_settled(self, sender: str, outcome: ops.Outcome) -> None:
        entry, end = self._simulation.ledger.jobs.get(outcome.id), (outcome.state, outcome.reason)
        if entry is None:
            return
        convict = outcome.id in self._convicts - self._rescued and not entry.replays
        if convict and outcome.state in (State.PARKED, State.SUCCEEDED):
            self._broken(outcome.id, f"is {outcome.state.value}, and was convicted of killing its workers")
        if outcome.state is State.PARKED and is_reason(outcome.reason):
            self._was_parked(sender, outcome)
        elif outcome.state in TERMINAL and entry.new.task == TOXIC and end not in _ENDS:
            self._broken(outcome.id, f"ended as {outcome.state.value} ({outcome.reason})")

    def _was_parked(self, sender: str, outcome: ops.Outcome) -> None:
        self.parked += 1
        if outcome.reason != self._reason_for(sender) or self._version_of(sender) not in self._ever:
            self._broken(outcome.id, f"was parked by {sender}, under whose version it is not held: {outcome.reason}")

    def _came_back(self, sender: str, reason: str, count: int) -> None:
        now_s, scenario = self._simulation.loop.time(), self._simulation.scenario
        self.back.append((now_s, count))
        if reason == self._reason_for(sender) and not self._freed:
            self._broken("", f"{sender} gives back what is held under its own version: {reason}")
        within_1s = sum(some for at_s, some in self.back if at_s > now_s - 1)
        steady = scenario.calm and not any(move.what == "jump" for move in scenario.moves)
        if steady and within_1s > BURST + RATE * (1 + scenario.late_s):
            self._broken("", f"{within_1s} jobs are given back within a second")

    def begins(self, job: str, worker: str) -> None:
        """A job of the task starts. Workers look now and then whether they may; before a suspect runs, they ask."""
        if not self._simulation.scenario.calm:
            return
        suspect = is_suspect(self._simulation.ledger.jobs[job].counts, RETRY)
        version = self._version_of(worker)
        known_s = self._simulation.scenario.late_s + (0 if suspect else LOOK_S * 1.25)
        late_s = self._simulation.loop.time() - self.held.get(version, float("inf")) - known_s
        if late_s > 0:
            what = "runs alone" if suspect else "starts"
            self._broken(job, f"{what} under version {version}, {late_s:.3f} s later than {worker} can have known")

    def _version_of(self, worker: str) -> str:
        life = self._simulation.lives.get(worker)
        return "" if life is None else str(life.version)

    def _reason_for(self, worker: str) -> str:
        return reason_of(TOXIC, self._version_of(worker))

    def _broken(self, job: str, text: str) -> None:
        self._simulation.ledger.broken("held task", job, text)
