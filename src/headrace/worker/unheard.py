"""What calls through circuits have told this worker, and the store has not heard yet."""

from __future__ import annotations

from headrace.core.circuit import LETTERS, Result, shares
from headrace.core.circuit_policy import CircuitPolicy

RECENT = 10  # calls that are looked at: among more of them, good ones from before an outage would hide its beginning


class Unheard:
    """By circuit, a letter for each of the last calls: what is noted, and what is on its way.

    One report is sent at a time. While these calls are as bad as what opens the circuit, no other call begins: the
    answer is a moment away, and may be that all must stop. Where the store does not answer nobody waits for it; one
    that is full must be drained.
    """

    def __init__(self) -> None:
        self._noted: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        self._suspects: set[str] = set()  # circuits with anything but good news
        self._deaf = False

    def note(self, circuit: str, result: Result) -> None:
        """One more call is over."""
        if result == "none":
            return
        self._noted[circuit] = (self._noted.get(circuit, "") + LETTERS[result])[-RECENT:]
        if result != "ok":
            self._suspects.add(circuit)

    def send(self) -> None:
        """All that is noted goes with a report."""
        self._sent, self._noted = self._noted, {}

    def answered(self) -> None:
        """That report has been heard."""
        self._deaf = False
        self._sent = {}
        self._suspects &= self._noted.keys()

    def failed(self) -> None:
        """It has not, and is sent again."""
        self._deaf = True

    def alarms(self, circuit: str, policy: CircuitPolicy) -> bool:
        """Whether a circuit with these calls only, and enough of them, would open."""
        if self._deaf or circuit not in self._suspects:
            return False
        letters = self._sent.get(circuit, "") + self._noted.get(circuit, "")
        failed, slow = shares(letters[-min(RECENT, policy.window) :])
        return failed >= policy.failure_rate or slow >= policy.slow_rate
