"""The circuit at its edges: each change in each state, any sequence of them, repeated ones, bodies from elsewhere."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.core.circuit import PROBE_OFFER_US, AskCircuit, Breaker, ForceCircuit, OfferCalls, ReportCalls, decode
from headrace.core.circuit_policy import BURST_S, SECOND, CircuitPolicy
from headrace.core.registers import Change
from tests.core.circuits import LEASE, NAME, POLICY, RESULTS, START, Circuit


def _after(results: str) -> Circuit:
    """Half-open with these results, and one more probe that is called p."""
    circuit = Circuit().half_opened()
    probes = circuit.ask("p", *(f"p{number}" for number in range(len(results))))
    circuit.report(list(zip(probes[1:], results, strict=True)))
    return circuit


def _done(*does: Callable[[Circuit], object]) -> Circuit:
    circuit = Circuit()
    for do in does:
        do(circuit)
    return circuit


# Name: how to get there; the state; how many of six calls may be made; how many jobs may come back; the state after
# the good end of p and another call, and after the bad end of both.
TABLE: dict[str, tuple[Callable[[], Circuit], str, int, int, str, str]] = {
    "new": (Circuit, "closed", 6, 2, "closed", "closed"),
    "well": (lambda: _done(lambda c: c.report("ooo")), "closed", 6, 2, "closed", "open"),
    "ill": (lambda: _done(lambda c: c.report("off")), "closed", 6, 2, "open", "open"),
    "recovering": (lambda: Circuit().recovering(), "closed", 2, 4, "closed", "closed"),
    "open": (lambda: Circuit().opened(), "open", 0, 0, "open", "open"),
    "half_open": (lambda: Circuit().half_opened(), "half_open", 3, 3, "half_open", "half_open"),
    "one probe": (lambda: _after("f"), "half_open", 1, 1, "half_open", "half_open"),
    "two probes": (lambda: _after("of"), "half_open", 0, 0, "closed", "open"),
    "forced_open": (lambda: _done(lambda c: c.force("forced_open")), "forced_open", 0, 0, "forced_open", "forced_open"),
    "forced_closed": (
        lambda: _done(lambda c: c.force("forced_closed")),
        *("forced_closed", 6, 2, "forced_closed", "forced_closed"),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_change_in_each_state(name: str) -> None:
    make, state, admitted, offered, good, bad = TABLE[name]
    generation = make().breaker.generation

    def end(result: str, of: int = generation) -> Callable[[Circuit], object]:
        return lambda circuit: circuit.report([("p", result), ("other", result)], generation=of)

    table: dict[str, tuple[Callable[[Circuit], object], object, str]] = {
        "ask": (lambda circuit: len(circuit.ask(*"abcdef")), admitted, state),
        "offer": (Circuit.offer, offered, state),
        "good end": (end("o"), None, good),
        "bad end": (end("f"), None, bad),
        "no end": (end("-"), None, state),
        "late end": (end("f", generation - 1), None, state),
        "early end": (end("f", generation + 1), None, state),
        "forced open": (lambda circuit: circuit.force("forced_open"), None, "forced_open"),
        "forced closed": (lambda circuit: circuit.force("forced_closed"), None, "forced_closed"),
        "reset": (lambda circuit: circuit.force("closed"), None, "closed"),
    }
    for what, (do, answer, after) in table.items():
        circuit = make()
        before = circuit.breaker
        assert do(circuit) == answer or answer is None, what
        assert circuit.breaker.state == after, what
        check_step(before, circuit.breaker)
        if after != state:
            assert circuit.breaker.generation == generation + 1, what


@pytest.mark.parametrize("late_us", [-1, 0, 1])
@pytest.mark.parametrize("what", ["ask", "offer", "report", "force"])
def test_each_change_before_at_and_after_the_end_of_its_time(what: str, late_us: int) -> None:
    circuit = Circuit().opened()
    circuit.now = circuit.breaker.until_us + late_us
    over = late_us >= 0
    if what == "ask":
        assert len(circuit.ask(*"abcdef")) == (3 if over else 0)
    elif what == "offer":
        assert circuit.offer() == (3 if over else 0)
    elif what == "report":
        circuit.report("ffff")
    else:
        circuit.force("forced_closed")
    after = "forced_closed" if what == "force" else "half_open" if over else "open"
    assert circuit.breaker.state == after


# -- answers that were lost


def test_a_request_that_is_repeated_hears_again_what_it_has_done() -> None:
    circuit = Circuit()
    opened = circuit.report("f" * POLICY.least, id="r").transitions
    assert [(step.after, step.request) for step in opened] == [("open", "r")]
    assert circuit.report("f" * POLICY.least, generation=1, id="r").transitions == opened
    assert circuit.report("f", generation=1, id="another").transitions == ()
    circuit.now = circuit.breaker.until_us
    awake = circuit.report("f" * POLICY.least, generation=1, id="r").transitions  # much later
    assert awake[:1] == opened
    assert [(step.after, step.request) for step in awake] == [("open", "r"), ("half_open", "r")]
    assert circuit.standing().transitions == ()


# -- any sequence of changes

patient = settings(deadline=None)  # a busy machine is no finding
calls = st.lists(st.sampled_from("abcdef"), max_size=6)
waits = st.sampled_from((0, 0, 0, 1, SECOND // 100, SECOND // 10, SECOND, LEASE - 1, LEASE, POLICY.open_us))
small = CircuitPolicy(window=4, minimum=3, open_us=20 * SECOND, probes=2, refill=20)
policies = st.sampled_from((None, POLICY, POLICY, small))
Step = tuple[int, CircuitPolicy | None, str, Any]
steps = st.tuples(
    waits,
    policies,
    st.sampled_from(("ask", "ask", "report", "report", "report", "offer", "force")),
    st.tuples(calls, st.sampled_from("oofffsx-"), st.sampled_from((0, 0, 0, -1, 1))),
)
forced = st.sampled_from(("forced_open", "forced_closed", "closed", "closed"))


def change_of(circuit: Circuit, number: int, step: Step, to: Any = "closed") -> Change:
    """What a step asks for."""
    _, policy, what, (names, letter, miss) = step
    options: dict[str, Any] = {"register": NAME, "by": f"w{number}", "policy": policy}
    match what:
        case "ask":
            return AskCircuit(**options, calls=tuple(names), lease_us=LEASE)
        case "report":
            ends = tuple((name, RESULTS[letter]) for name in names)
            return ReportCalls(
                **options, request=f"r{number}", generation=circuit.breaker.generation + miss, calls=ends
            )
        case "offer":
            return OfferCalls(**options)
    return ForceCircuit(**options, to=to, why="a test")


def check_step(before: Breaker, after: Breaker) -> None:
    """What holds of each change, whatever it is."""
    made = after.generation - before.generation
    assert 0 <= made <= 2
    new = after.history[-made:] if made else ()
    path = [before.state, *(step.after for step in new)]
    assert [step.before for step in new] == path[:-1]
    assert path[-1] == after.state
    if not made:  # B161: what was written by whoever opened it stays
        assert (after.since_us, after.until_us, after.history) == (before.since_us, before.until_us, before.history)
    assert (after.until_us > 0) is (after.state == "open")
    assert not after.window or after.state == "closed"
    assert not (after.permits or after.results) or after.state == "half_open"


@patient
@given(sequence=st.lists(st.tuples(steps, forced), max_size=20))
def test_any_sequence_keeps_the_circuit_whole(sequence: list[tuple[Step, Any]]) -> None:
    """And each change that is sent again, since its answer was lost, changes nothing."""
    circuit = Circuit()
    sent: list[ReportCalls] = []
    for number, (step, to) in enumerate(sequence):
        circuit.now += step[0]
        change = change_of(circuit, number, step, to)
        before = decode(circuit.body, change.policy)  # type: ignore[attr-defined]
        answer = circuit.do(change)
        after = decode(circuit.body, change.policy)  # type: ignore[attr-defined]
        check_step(before, after)
        if circuit.body:
            assert replace(msgspec.json.decode(circuit.body, type=Breaker), policy=after.policy) == after
        once = circuit.body
        again = circuit.do(change)
        if isinstance(change, AskCircuit):
            check_admitted(change, after, answer.admitted, circuit.now)
            if answer.standing.slowed:  # it has taken its part of the pace: the one who lost it has to wait
                circuit.body = once
            else:
                assert again.admitted == answer.admitted
        assert circuit.body == once
        if isinstance(change, ReportCalls) and (change.request in after.heard or change.generation < after.generation):
            sent.append(change)  # the others tell of calls that are yet to be let in
    for earlier in sent:  # also much later, under the policy of that time
        assert replace(earlier, policy=None).apply(circuit.body, circuit.now).body == circuit.body


def check_admitted(ask: AskCircuit, after: Breaker, admitted: frozenset[str], now_us: int) -> None:
    assert admitted <= set(ask.calls)
    match after.state:
        case "open" | "forced_open":
            assert not admitted
        case "half_open":
            assert admitted <= after.permits.keys()
            assert all(after.permits[call] == now_us + LEASE for call in admitted)
        case _ if not after.recovers(now_us):
            assert admitted == set(ask.calls)


@patient
@given(
    probes=st.integers(1, 4),
    sequence=st.lists(st.tuples(waits.filter(lambda wait: wait <= LEASE), calls, st.sampled_from("oxf-d"))),
)
def test_a_half_open_circuit_never_has_more_out_than_its_probes(
    probes: int, sequence: list[tuple[int, list[str], str]]
) -> None:
    """B162: whatever dies (d), is late or tells nothing, no more than `probes` leases and results are there at once."""
    circuit = Circuit(replace(POLICY, probes=probes, window=10, minimum=10)).half_opened()
    out: dict[str, int] = {}
    told = 0
    for number, (wait, names, end) in enumerate(sequence):
        circuit.now += wait
        out = {call: until for call, until in out.items() if until > circuit.now}
        admitted = circuit.ask(*(f"{name}{number}" for name in names))
        out |= dict.fromkeys(admitted, circuit.now + LEASE)
        assert len(out) + told <= probes
        assert len(out) + told == probes or len(admitted) == len(set(names))  # and none of them is kept back
        if end != "d" and out:
            call = min(out)
            del out[call]
            told += end != "-"
            if circuit.report([(call, end)]).state != "half_open":
                assert told == probes
                return


@patient
@given(
    refill=st.sampled_from((0.3, 1, 7, 20, 50, 333.3, 5000)),
    sequence=st.lists(
        st.tuples(st.integers(0, 2 * SECOND) | st.integers(0, SECOND // 50), st.integers(0, 30)), max_size=60
    ),
)
def test_the_pace_holds_in_every_window(refill: float, sequence: list[tuple[int, int]]) -> None:
    """While jobs are parked: never more than the refill of the window, and of a tenth of a second; at least one."""
    circuit = Circuit(replace(POLICY, refill=refill)).recovering()
    admitted: list[int] = []
    offered: list[int] = []
    for wait, wanted in sequence:
        circuit.now += wait
        offered += [circuit.now] * circuit.offer()
        admitted += [circuit.now] * len(circuit.ask(*(f"{number}" for number in range(wanted))))
    for last, to_us in enumerate(admitted):
        for first, from_us in enumerate(admitted[: last + 1]):
            span_s = (to_us - from_us) / SECOND
            assert last - first + 1 <= refill * span_s + max(1.0, refill * BURST_S)
    for count in (offered.count(moment) for moment in set(offered)):
        assert count <= 2 * circuit.breaker.policy.burst
    moments = sorted(set(offered))
    assert all(later - sooner >= circuit.breaker.policy.burst_us for sooner, later in pairwise(moments))


@patient
@given(sequence=st.lists(st.tuples(st.integers(0, 2 * SECOND), calls), max_size=20))
def test_probes_are_offered_at_most_once_a_second(sequence: list[tuple[int, list[str]]]) -> None:
    circuit = Circuit().half_opened()
    offers: list[int] = []
    for wait, names in sequence:
        circuit.now += wait
        free = circuit.breaker.awake(circuit.now, "").probes_left
        if count := circuit.offer():
            assert count == free
            assert not offers or circuit.now - offers[-1] >= PROBE_OFFER_US
            offers.append(circuit.now)
        circuit.ask(*names)


# -- bodies that another program wrote

CHANGES = [
    change_of(Circuit(), 1, (0, policy, what, (["a", "b"], "f", 0)))
    for policy in (None, POLICY)
    for what in ("ask", "report", "offer", "force")
]
WHOLE = msgspec.to_builtins(Circuit().recovering().breaker)
BODIES = [
    *(b"", b"{", b"{}", b"null", b"[]", b"17", b"\xff\xfe", b'"\xff"', b"[" * 100_000, b"\x00" * 10),
    *(
        msgspec.json.encode({**WHOLE, **wrong})
        for wrong in (
            {"state": "ajar"},
            {"policy": {"window": 0}},
            {"policy": {"window": "many"}},
            {"permits": {"a": "soon"}},
            {"generation": None},
            {"history": [[1]]},
        )
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{type(change).__name__}-{bool(change.policy)}")
def test_a_body_that_cannot_be_read_is_a_new_circuit(change: Change) -> None:
    expected = change.apply(None, START)
    for body in BODIES:
        changed = change.apply(body, START)
        assert changed.answer == expected.answer, body
        assert changed.body == (expected.body or body), body


numbers = st.integers(-(2**63), 2**63 - 1)


@patient
@given(
    body=st.binary(max_size=20)
    | st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(("closed", "open", "half_open", "forced_open", "forced_closed")),
            "generation": numbers,
            "since_us": numbers,
            "until_us": numbers,
            "window": st.text(max_size=5),
            "permits": st.dictionaries(st.sampled_from("abp"), numbers),
            "results": st.text("ofsx?", max_size=5),
            "heard": st.lists(st.text(max_size=3), max_size=3),
            "offered_us": numbers,
            "recovering_until_us": numbers,
            "paced_us": numbers,
        },
    ).map(lambda wrong: msgspec.json.encode({**WHOLE, **wrong})),
    change=st.sampled_from(CHANGES),
)
def test_no_body_breaks_a_change(body: bytes, change: Change) -> None:
    changed = change.apply(body, START)
    assert changed.body is not None
    if changed.body != body:
        assert isinstance(msgspec.json.decode(changed.body, type=Breaker), Breaker)
    if isinstance(change, OfferCalls):
        assert 0 <= changed.answer.count <= 2 * CircuitPolicy().burst
