"""What calls through circuits have told this worker, and the store has not heard yet."""

from __future__ import annotations

import msgspec

from headrace.core.circuit import Result
from headrace.core.circuit_policy import CircuitPolicy


class Tally(msgspec.Struct):
    """Calls through one circuit; a slow one may have failed as well."""

    calls: int = 0
    failed: int = 0
    slow: int = 0


class Unheard:
    """By circuit: what is noted, and what is on its way with the one report that is sent at a time.

    While that alone is as bad as what opens the circuit, no other call begins: the answer is a moment away, and may
    be that all must stop. Where the store does not answer nobody waits for it; one that is full must be drained.
    """

    def __init__(self) -> None:
        self._noted: dict[str, Tally] = {}
        self._sent: dict[str, Tally] = {}
        self._suspects: set[str] = set()  # circuits with anything but good news
        self._deaf = False

    def note(self, circuit: str, result: Result) -> None:
        """One more call is over."""
        if result == "none":
            return
        tally = self._noted.get(circuit)
        if tally is None:
            tally = self._noted[circuit] = Tally()
        tally.calls += 1
        if result != "ok":
            tally.failed += result != "slow"
            tally.slow += result != "failed"
            self._suspects.add(circuit)

    def send(self) -> None:
        """All that is noted goes with a report."""
        self._sent, self._noted = self._noted, {}

    def answered(self) -> None:
        """That report has been heard."""
        self._deaf = False
        self._sent = {}
        self._suspects = {name for name, tally in self._noted.items() if tally.failed or tally.slow}

    def failed(self) -> None:
        """It has not, and is sent again."""
        self._deaf = True

    def alarms(self, circuit: str, policy: CircuitPolicy) -> bool:
        """Whether a circuit with these calls only, and enough of them, would open."""
        if self._deaf or circuit not in self._suspects:
            return False
        tallies = [tally for tally in (self._sent.get(circuit), self._noted.get(circuit)) if tally is not None]
        calls = sum(tally.calls for tally in tallies)
        failed, slow = sum(tally.failed for tally in tallies), sum(tally.slow for tally in tallies)
        return failed >= policy.failure_rate * calls or slow >= policy.slow_rate * calls
