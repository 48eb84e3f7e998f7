"""Rules about parked jobs, edits of failed ones, and registers."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.circuit import AskCircuit, ForceCircuit, OfferCalls, ReportCalls
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.parking import LookParked, Unpark
from headrace.core.registers import Amend, Change, LookRegisters
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE
from headrace.testing.conformance.registers import Append, Count, Erase

REASONS = ("circuit smtp", "circuit bank", "parked", "")  # the third is what other rules park for
NAMES = ("a", "b", "circuit:smtp", "circuit:bank")
POLICY = CircuitPolicy(window=3, minimum=2, open_us=5 * MICROSECONDS, probes=2)

reasons = st.sampled_from(REASONS)
names = st.sampled_from(NAMES)
texts = st.binary(max_size=3)
memories = st.binary(min_size=1, max_size=3)  # a trail is never empty
keeps = st.sampled_from((MICROSECONDS, 100 * MICROSECONDS))
orders = st.sampled_from((("q1",), ("q2",), ("q1", "q2"), ("q2", "q1"), ("q2", "nowhere", "q1", "q2"), ()))
calls = st.lists(st.sampled_from("abcd"), max_size=4)
circuit: dict[str, Any] = {
    "register": st.sampled_from(NAMES[2:]),
    "by": st.just("w1"),
    "policy": st.sampled_from((None, POLICY)),
}
plain_changes = st.one_of(
    st.builds(Append, register=names, text=texts, keep_us=keeps),
    st.builds(Count, register=names, text=texts),
    st.builds(Erase, register=names),
)
circuit_changes = st.one_of(
    st.builds(AskCircuit, **circuit, calls=calls.map(tuple), lease_us=st.just(LEASE)),
    st.builds(
        ReportCalls,
        **circuit,
        request=st.text("xyz", min_size=1),
        generation=st.integers(1, 4),
        calls=calls.map(lambda calls: tuple((call, "failed" if call in "ab" else "ok") for call in calls)),
    ),
    st.builds(OfferCalls, **circuit),
    st.builds(ForceCircuit, **circuit, to=st.sampled_from(("forced_open", "closed")), why=st.just("so")),
)


class ParkingRules(RuleBasedStateMachine):
    """To be part of a comparison, which says what `both` does and what has been claimed."""

    model: Any
    claims: list[tuple[str, ops.ClaimedJob]]

    def both(self, operation: Any, tidy: Any = None, *, tick_us: int = 1) -> Any:
        raise NotImplementedError

    @precondition(lambda self: self.claims)
    @rule(parked=st.lists(st.tuples(st.integers(0, 30), reasons), min_size=1, max_size=6), memory=st.none() | memories)
    def park(self, parked: list[tuple[int, str]], memory: bytes | None) -> None:
        outcomes = []
        for pick, reason in parked:
            _, job = self.claims[-1 - pick % len(self.claims)]
            outcomes.append(ops.Outcome(job.id, job.queue, job.token, State.PARKED, trail=memory, reason=reason))
        self.both(ops.Settle("w1", tuple(outcomes)))
        self.look_parked(("q1", "q2"))

    @rule(queues=orders, reason=reasons, limit=st.sampled_from((0, 1, 2, 100)))
    def unpark(self, queues: tuple[str, ...], reason: str, limit: int) -> None:
        self.both(Unpark(queues, reason, limit))
        self.look_parked(("q2", "q1"))

    @rule(queues=orders)
    def look_parked(self, queues: tuple[str, ...]) -> None:
        self.both(LookParked(queues))
        self.both(LookParked(queues, counting=True))

    @rule(pick=st.integers(0, 30), body=texts, was=st.none() | texts, queue=st.sampled_from((None, None, "q1")))
    def edit(self, pick: int, body: bytes, was: bytes | None, queue: str | None) -> None:
        """A failed one, if there is any; mostly as it is."""
        failed = self.model(ops.List(State.FAILED, bodies=True)).jobs
        if failed:
            view = failed[pick % len(failed)]
            seen = view.body if was is None else was
            note = trail.encode(trail.Trail(attempts=7))
            self.both(ops.Edit(view.id, queue or view.queue, seen, body, note))
            self.both(ops.Get(view.id))

    @rule(changes=st.lists(plain_changes | circuit_changes, min_size=1, max_size=5))
    def amend(self, changes: list[Change]) -> None:
        self.both(Amend(tuple(changes)))
        self.both(LookRegisters())

    @rule(prefix=st.sampled_from(("", "circuit:", "b")), limit=st.sampled_from((1, 1000)), after=st.just("") | names)
    def look_at_registers(self, prefix: str, limit: int, after: str) -> None:
        self.both(LookRegisters(prefix, limit, after))
