"""A circuit's register in one hand, to be changed at any time by anyone."""

from collections.abc import Iterable
from typing import Any

from headrace.core.circuit import (
    Admission,
    AskCircuit,
    Breaker,
    ForceCircuit,
    Offer,
    OfferCalls,
    ReportCalls,
    Result,
    Standing,
    decode,
)
from headrace.core.circuit_policy import SECOND, CircuitPolicy
from headrace.core.registers import Change, Changed

NAME = "circuit:smtp"
START = 1_000_000 * SECOND
LEASE = 10 * SECOND
RESULTS: dict[str, Result] = {"o": "ok", "f": "failed", "s": "slow", "x": "slow_failed", "-": "none"}

# Small enough to be written out: opens at 2 failed ones of the last 4, for 30 s; 3 probes; 20 calls a second.
POLICY = CircuitPolicy(window=4, minimum=4, open_us=30 * SECOND, probes=3, refill=20)


class Circuit:
    """`now` moves only by hand."""

    def __init__(self, policy: CircuitPolicy | None = POLICY, body: bytes | None = None) -> None:
        self.policy = policy
        self.body = body
        self.now = START
        self.reports = 0
        self.changed = Changed(body)

    @property
    def breaker(self) -> Breaker:
        return decode(self.body, self.policy)

    def do(self, change: Change) -> Any:
        """The answer."""
        self.changed = change.apply(self.body, self.now)
        assert self.changed.body is not None or self.body is None
        self.body = self.changed.body
        return self.changed.answer

    def ask(self, *calls: str, lease_us: int = LEASE) -> list[str]:
        """Those that are admitted."""
        admission: Admission = self.do(
            AskCircuit(register=NAME, by="w1", policy=self.policy, calls=calls, lease_us=lease_us)
        )
        assert admission.admitted <= set(calls)
        return sorted(admission.admitted)

    def report(
        self, results: str | Iterable[tuple[str, str]], *, generation: int | None = None, id: str = ""
    ) -> Standing:
        """A letter for each call: of calls that have a name, or of any."""
        self.reports += 1
        calls = (
            [(f"c{number}", letter) for number, letter in enumerate(results)] if isinstance(results, str) else results
        )
        change = ReportCalls(
            register=NAME,
            by="w1",
            policy=self.policy,
            request=id or f"r{self.reports}",
            generation=self.breaker.generation if generation is None else generation,
            calls=tuple((call, RESULTS[letter]) for call, letter in calls),
        )
        standing: Standing = self.do(change)
        return standing

    def offer(self) -> int:
        """How many jobs may come back."""
        offer: Offer = self.do(OfferCalls(register=NAME, by="w1", policy=self.policy))
        return offer.count

    def force(self, to: Any) -> Standing:
        """As an operator does."""
        standing: Standing = self.do(ForceCircuit(register=NAME, by="ann", policy=self.policy, to=to, why="a test"))
        return standing

    def standing(self) -> Standing:
        """By asking for nothing."""
        admission: Admission = self.do(AskCircuit(register=NAME, by="w1", policy=self.policy, calls=(), lease_us=LEASE))
        return admission.standing

    # -- on the way to each state

    def opened(self) -> "Circuit":
        """Open from now on."""
        assert self.report("f" * self.breaker.policy.least).state == "open"
        return self

    def half_opened(self) -> "Circuit":
        """Half-open, no probe given out."""
        self.opened()
        self.now = self.breaker.until_us
        assert self.standing().state == "half_open"
        return self

    def recovering(self) -> "Circuit":
        """Closed again, by its probes."""
        self.half_opened()
        probes = self.ask(*(f"p{number}" for number in range(self.breaker.policy.probes)))
        assert self.report([(call, "o") for call in probes]).state == "closed"
        return self
