"""A job's way through the gates: whether it may run, and what is to be told when it has."""

from __future__ import annotations

import msgspec

from headrace.circuits import CircuitOptions
from headrace.circuits.looks import REASON
from headrace.circuits.standings import Standings
from headrace.core import endings
from headrace.core.budget import RetryBudget
from headrace.core.circuit import Result, Standing
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.operations import ClaimedJob
from headrace.core.settle import Probe
from headrace.core.verdict import Pending

MADE = (
    *(endings.Succeeded, endings.Raised, endings.RaisedElsewhere, endings.Crashed),
    *(endings.TimedOut, endings.Decided),
)


class Gate(msgspec.Struct, frozen=True):
    """What the jobs of one task in one queue pass. `policy` None: that of the store holds."""

    circuit: str | None
    policy: CircuitPolicy | None
    options: CircuitOptions
    budgets: dict[str, RetryBudget]  # by register

    @property
    def reason(self) -> str:
        """What its jobs are parked for."""
        return f"{REASON}{self.circuit}"


class Pass:
    """Of one claimed job. It is let in by an answer of the store, and asks what is known once more before it starts."""

    __slots__ = ("begun_at", "gate", "generation", "granted", "is_probe", "is_retry", "job", "noted", "refusal")

    def __init__(self, gate: Gate, job: ClaimedJob, *, is_retry: bool) -> None:
        self.gate = gate
        self.job = job
        self.is_retry = is_retry
        self.generation: int | None = None  # of the circuit, in which it was let in
        self.is_probe = False
        self.granted: set[str] = set()  # registers of budgets
        self.refusal: endings.Ending | None = None
        self.begun_at: float | None = None  # seconds of the monotonic clock
        self.noted = False

    @property
    def call(self) -> str:
        """Its name for the circuit; of most calls nobody asks for it."""
        return f"{self.job.id}:{self.job.token}"

    @property
    def may_begin(self) -> bool:
        """Whether its circuit has let it in, and it waits for something else."""
        return self.generation is not None and self.refusal is None and self.begun_at is None

    def let_in(self, standing: Standing) -> None:
        """By its circuit, as that stands."""
        self.generation = standing.generation
        self.is_probe = standing.state == "half_open"

    def ending(self, standings: Standings) -> endings.Ending | None:
        """How it ends without being run. None: it may run, as far as is known at this moment."""
        circuit = self.gate.circuit
        if self.refusal is not None or circuit is None:
            return self.refusal
        known = standings.get(circuit)
        if known is None or known.standing.generation == self.generation:
            return None
        if known.standing.lets_all_in:
            self.let_in(known.standing)
            return None
        return endings.Parked(self.gate.reason)

    def result(self, ending: endings.Ending, now: float) -> Result:
        """What its run tells of the dependency."""
        if self.begun_at is None:
            return "none"
        options, seconds = self.gate.options, now - self.begun_at
        match ending:
            case endings.Succeeded() | endings.Decided(verdict=Pending()):
                return options.result(None, seconds)
            case endings.TimedOut():
                return options.result(TimeoutError(), seconds)
            case endings.Raised(error=error):
                return options.result(error, seconds)
            case endings.RaisedElsewhere(classes=classes):
                return options.result_elsewhere(classes, seconds)
        return "none"

    def vain_probe(self, ending: endings.Ending) -> Probe | None:
        """What its circuit learns from it, if it has tried for others as well, and failed."""
        policy = self.gate.policy
        if not self.is_probe or policy is None or self.begun_at is None:
            return None
        failed = self.result(ending, self.begun_at) == "failed"
        return Probe(self.gate.reason, policy.open_us) if failed else None

    def was_made(self, ending: endings.Ending) -> bool:
        """Whether it counts as a run, for budgets."""
        return self.begun_at is not None and isinstance(ending, MADE)
