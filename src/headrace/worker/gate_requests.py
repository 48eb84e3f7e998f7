"""What a worker asks and tells circuits and retry budgets, each under an id of its own.

One whose answer was lost is sent again as it is, and is known by that id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.circuits import Circuit
from headrace.core.budget import RetryBudget, SpendRetries
from headrace.core.circuit import REGISTERS, AskCircuit, ReportCalls, Result
from headrace.core.circuit_policy import CircuitPolicy
from headrace.worker.passes import Pass
from headrace.worker.shared import Shared


class GateRequests:
    """Makes the changes of their registers."""

    def __init__(self, shared: Shared, circuits: Mapping[str, Circuit]) -> None:
        self._shared = shared
        self._circuits = circuits
        self._made = 0
        self._prefix = f"{shared.rng.getrandbits(40):x}-"

    def id(self) -> str:
        """An id that no other request has."""
        self._made += 1
        return f"{self._prefix}{self._made:x}"

    def policy(self, name: str) -> CircuitPolicy | None:
        """When that circuit opens and closes. None: as the store says."""
        circuit = self._circuits.get(name)
        return None if circuit is None else circuit.policy

    def ask(self, name: str, calls: Iterable[Pass]) -> AskCircuit:
        """May they be made? Without calls, a question admits nobody, and takes no part of a pace."""
        return AskCircuit(
            register=REGISTERS + name,
            by=self._shared.id,
            policy=self.policy(name),
            request=self.id(),
            calls=tuple(one.call for one in calls),
            lease_us=self._shared.lease_us,
        )

    def report(self, name: str, generation: int, calls: Iterable[tuple[Pass, Result]]) -> ReportCalls:
        """What has become of calls that were let in during that generation of the circuit."""
        return ReportCalls(
            register=REGISTERS + name,
            by=self._shared.id,
            policy=self.policy(name),
            request=self.id(),
            generation=generation,
            calls=tuple((one.call, result) for one, result in calls),
        )

    def ask_for_retries(self, register: str, budget: RetryBudget, retries: Sequence[Pass]) -> SpendRetries:
        """How many of them may be made?"""
        return SpendRetries(register=register, request=self.id(), budget=budget, retries=len(retries))

    def report_spending(self, register: str, budget: RetryBudget, *, firsts: int, unused: int) -> SpendRetries:
        """First attempts that have been made, and retries that were granted and have not."""
        return SpendRetries(register=register, request=self.id(), budget=budget, firsts=firsts, unused=unused)
