"""The circuit, step by step: what opens it, what closes it, how it recovers, who forces it."""

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.core.circuit import (
    FORCED_KEEP_US,
    HISTORY,
    KEEP_US,
    PROBE_OFFER_US,
    Standing,
    Transition,
    shares,
    verdict,
)
from headrace.core.circuit_policy import SECOND, CircuitPolicy
from headrace.errors import ConfigError
from tests.core.circuits import LEASE, POLICY, START, Circuit

DEFAULTS = CircuitPolicy()


# -- what opens it


def test_the_defaults_are_those_of_resilience4j_but_for_minimum_and_probes() -> None:
    assert (DEFAULTS.failure_rate, DEFAULTS.window, DEFAULTS.open_us) == (0.5, 100, 60 * SECOND)
    assert (DEFAULTS.slow_rate, DEFAULTS.slow_after_us) == (1.0, 60 * SECOND)
    assert (DEFAULTS.least, DEFAULTS.probes, DEFAULTS.verdict_after) == (20, 5, 5)
    assert CircuitPolicy(window=7).least == 7
    assert CircuitPolicy(window=7, minimum=3).least == 3
    assert CircuitPolicy(minimum=3, probes=9).verdict_after == 3


@pytest.mark.parametrize(
    ("policy", "results", "opens"),
    [
        (DEFAULTS, "f" * 19, ""),  # the window says nothing before it holds the minimum
        (DEFAULTS, "f" * 20, "100% of 20 calls failed"),
        (DEFAULTS, "o" * 10 + "f" * 10, "50% of 20 calls failed"),  # at the threshold, not beyond it
        (DEFAULTS, "o" * 11 + "f" * 9, ""),
        (DEFAULTS, "-" * 90 + "f" * 19, ""),  # what is ignored is no call
        (DEFAULTS, "o" * 51 + "f" * 49, ""),
        (DEFAULTS, "o" * 51 + "f" * 50, "50% of 100 calls failed"),  # the oldest has left the window
        (DEFAULTS, "s" * 20, "100% of 20 calls were slow"),
        (DEFAULTS, "s" * 19 + "o", ""),
        (DEFAULTS, "x" * 20, "100% of 20 calls failed"),
        (CircuitPolicy(slow_rate=0.25), "o" * 15 + "s" * 5, "25% of 20 calls were slow"),
        (CircuitPolicy(slow_rate=0.25), "o" * 15 + "s" * 3 + "x" * 2, "25% of 20 calls were slow"),
        (CircuitPolicy(window=3), "ff", ""),
        (CircuitPolicy(window=3), "ofo" + "ooo", ""),
        (CircuitPolicy(window=3), "fof", "67% of 3 calls failed"),
        (CircuitPolicy(window=10, minimum=1), "f", "100% of 1 calls failed"),
        (CircuitPolicy(failure_rate=1.0, minimum=2), "of" + "f" * 97, ""),
        (CircuitPolicy(failure_rate=0.07, minimum=100), "o" * 93 + "f" * 7, "7% of 100 calls failed"),
    ],
)
def test_a_closed_circuit_opens_by_its_window(policy: CircuitPolicy, results: str, opens: str) -> None:
    """Whether the results come one by one or in one report, where the end is what decides."""
    one_by_one, at_once = Circuit(policy), Circuit(policy)
    for letter in results:
        assert one_by_one.breaker.state == "closed"
        one_by_one.report(letter)
    at_once.report(results)
    for circuit in (one_by_one, at_once):
        assert circuit.breaker.state == ("open" if opens else "closed")
        assert [step.why for step in circuit.breaker.history] == ([opens] if opens else [])
    assert one_by_one.breaker.window == at_once.breaker.window


def test_shares_and_verdicts() -> None:
    assert shares("") == (0, 0)
    assert shares("ofsx") == (0.5, 0.5)
    assert verdict("", CircuitPolicy(failure_rate=1e-9, slow_rate=1e-9)) == ""


# -- open


def test_an_open_circuit_lets_nothing_in_until_its_time_has_come() -> None:
    circuit = Circuit().opened()
    assert circuit.breaker.until_us == START + 30 * SECOND
    circuit.now = START + 30 * SECOND - 1
    assert circuit.ask("a", "b") == []
    assert circuit.offer() == 0
    assert circuit.standing() == Standing("open", 2, wait_us=1)
    assert not circuit.standing().lets_all_in
    circuit.now += 1
    assert circuit.standing().transitions == (
        Transition(circuit.now, "open", "half_open", "it has been open for long enough", "w1"),
    )
    assert circuit.standing() == Standing("half_open", 3)


def test_a_clock_that_was_set_back_keeps_no_circuit_open() -> None:
    """By hours, as where another server of a cluster takes over: that is not how long mails shall wait."""
    circuit = Circuit().opened()
    circuit.now -= 3600 * SECOND
    assert circuit.standing() == Standing("open", 2, wait_us=30 * SECOND)
    circuit.now += 30 * SECOND
    assert circuit.ask("a", "b", "c", "d") == ["a", "b", "c"]
    circuit.now -= 3600 * SECOND
    assert circuit.ask("d") == []
    circuit.now += LEASE
    assert circuit.ask("d") == ["d"]


@pytest.mark.parametrize("change", ["ask", "report", "offer"])
def test_whoever_comes_after_its_time_finds_it_half_open(change: str) -> None:
    circuit = Circuit().opened()
    circuit.now += 31 * SECOND
    if change == "ask":
        assert circuit.ask("a", "b", "c", "d") == ["a", "b", "c"]
    elif change == "offer":
        assert circuit.offer() == 3
    else:
        circuit.report("ffff", generation=1)
    assert (circuit.breaker.state, circuit.breaker.generation) == ("half_open", 3)


def test_looking_at_an_open_circuit_does_not_keep_it_open() -> None:
    """B161: eight workers poll it every 200 ms; when its time has come, one probe goes out."""
    circuit = Circuit(replace(POLICY, probes=1, open_us=3 * SECOND)).opened()
    opened = circuit.breaker
    admitted = []
    for tick in range(8 * 5 * 4):
        circuit.now = START + tick * SECOND // 40
        admitted += [(circuit.now - START, call) for call in circuit.ask(f"c{tick}")]
        circuit.report("f", generation=1)
        if circuit.now < opened.until_us:
            assert circuit.breaker == opened
    assert admitted == [(3 * SECOND, "c120")]


# -- half-open


@pytest.mark.parametrize(
    ("policy", "results", "after"),
    [
        (POLICY, "oo", "half_open"),
        (POLICY, "ooo", "closed"),
        (POLICY, "oof", "closed"),  # a third of them failed
        (POLICY, "off", "open"),
        (POLICY, "ff", "half_open"),  # the verdict falls when all are in
        (POLICY, "sss", "open"),
        (POLICY, "ssx", "open"),
        (POLICY, "sso", "closed"),
        (replace(POLICY, minimum=2), "o", "half_open"),
        (replace(POLICY, minimum=2), "oo", "closed"),  # or when the minimum is in
        (replace(POLICY, minimum=2), "of", "open"),
        (replace(POLICY, minimum=1), "f", "open"),
        (replace(POLICY, probes=1), "o", "closed"),
        (replace(POLICY, probes=1), "f", "open"),
    ],
)
def test_its_probes_decide(policy: CircuitPolicy, results: str, after: str) -> None:
    circuit = Circuit(policy).half_opened()
    probes = circuit.ask("a", "b", "c")
    assert len(probes) == policy.probes
    for probe, letter in zip(probes, results, strict=False):
        assert circuit.breaker.state == "half_open"
        circuit.report([(probe, letter)])
    breaker = circuit.breaker
    assert breaker.state == after
    if after != "half_open":
        assert (breaker.window, breaker.results, breaker.permits) == ("", "", {})
        assert breaker.until_us == (circuit.now + 30 * SECOND if after == "open" else 0)


def test_a_half_open_circuit_admits_no_more_than_its_probes() -> None:
    """B162: fifty are waiting, one at a time goes in; when it dies, the next one goes after its lease."""
    circuit = Circuit(replace(POLICY, probes=1)).half_opened()
    waiting = [f"job{number}" for number in range(50)]
    assert circuit.ask(*waiting) == ["job0"]
    for call in waiting[1:]:
        assert circuit.ask(call) == []
    circuit.now += LEASE - 1
    assert circuit.ask(*waiting[1:]) == []
    circuit.now += 1
    assert circuit.ask(*waiting[1:]) == ["job1"]
    assert circuit.report([("job0", "o")]).state == "half_open"  # the dead speak no more
    assert circuit.report([("job1", "o")]).state == "closed"


def test_a_probe_that_asks_again_keeps_its_permit() -> None:
    circuit = Circuit().half_opened()
    assert circuit.ask("a", "b", "c") == ["a", "b", "c"]
    circuit.now += LEASE - 1
    assert circuit.ask("a", "d") == ["a"]
    circuit.now += LEASE - 1
    assert circuit.ask("d", "e", "f", "a") == ["a", "d", "e"]


def test_a_probe_that_tells_nothing_gives_its_permit_back() -> None:
    circuit = Circuit().half_opened()
    assert circuit.ask("a", "b", "c", "d") == ["a", "b", "c"]
    circuit.report([("a", "-")])
    circuit.report([("b", "o")])
    assert circuit.ask("d", "e") == ["d"]
    assert (circuit.breaker.results, sorted(circuit.breaker.permits)) == ("o", ["c", "d"])


def test_results_of_an_earlier_generation_decide_nothing() -> None:
    circuit = Circuit().half_opened()
    circuit.ask("a", "b", "c")
    before = circuit.body
    for generation in (1, 2, 4):
        circuit.report([("a", "f"), ("b", "f"), ("c", "f")], generation=generation)
    circuit.report([("x", "f"), ("y", "f"), ("z", "f")])  # nobody admitted these
    assert circuit.body == before
    circuit.report([("a", "o"), ("b", "o"), ("c", "o")])
    assert circuit.report("ffff", generation=3).state == "closed"
    assert circuit.breaker.window == ""
    assert circuit.report("fff").state == "closed"  # it has forgotten what opened it
    assert circuit.report("f").state == "open"


def test_the_verdict_leaves_the_other_probes_out_of_it() -> None:
    circuit = Circuit(replace(POLICY, minimum=1)).half_opened()
    circuit.ask("a", "b", "c")
    assert circuit.report([("a", "f")]).state == "open"
    assert circuit.report([("b", "o")], generation=3).state == "open"
    circuit.now = circuit.breaker.until_us
    assert circuit.ask("d", "b", "e", "f") == ["b", "d", "e"]  # all permits are there


def test_probes_are_offered_to_one_worker_at_a_time() -> None:
    circuit = Circuit().half_opened()
    assert [circuit.offer() for _ in range(3)] == [3, 0, 0]
    circuit.ask("a", "b")
    circuit.now += PROBE_OFFER_US
    assert circuit.offer() == 1
    circuit.now -= 3600 * SECOND  # a clock that was set back holds nobody up
    assert circuit.offer() == 1


# -- closed again


def test_calls_come_back_at_a_pace() -> None:
    circuit = Circuit().recovering()
    assert circuit.standing() == Standing("closed", 4, slowed=True)
    assert circuit.ask("a", "b", "c", "a") == ["a", "b"]  # a tenth of a second's
    assert circuit.ask("c") == []
    circuit.now += SECOND // 20 - 1
    assert circuit.ask("c") == []
    circuit.now += 1
    assert circuit.ask("c", "d") == ["c"]
    circuit.now += SECOND
    assert circuit.ask(*"abcdefgh") == ["a", "b"]
    circuit.now += 4 * SECOND
    assert circuit.standing() == Standing("closed", 4)  # nobody has parked jobs
    assert circuit.standing().lets_all_in
    assert circuit.ask(*"abcdefgh") == list("abcdefgh")


def test_there_is_a_pace_for_as_long_as_jobs_are_parked() -> None:
    circuit = Circuit().recovering()
    assert [circuit.offer() for _ in range(3)] == [4, 0, 0]  # what may come in now, and before the next offer
    for _ in range(10):
        circuit.now += 4 * SECOND
        assert circuit.standing().slowed
        assert circuit.offer() == 4
        assert len(circuit.ask(*"abcdefgh")) == 2
        circuit.now += SECOND // 10
        assert circuit.offer() == 4
        assert len(circuit.ask(*"abcdefgh")) == 2
        assert circuit.offer() == 0
    circuit.now += 5 * SECOND
    assert circuit.standing().lets_all_in
    assert circuit.offer() == 2  # some have turned up after all
    assert circuit.standing().slowed


def test_a_pace_below_one_a_second_is_kept_as_well() -> None:
    circuit = Circuit(replace(POLICY, refill=0.1)).recovering()
    admitted = []
    for second in range(61):
        circuit.offer()
        admitted += [second for call in circuit.ask(f"c{second}")]
        circuit.now += SECOND
    assert admitted == [0, 10, 20, 30, 40, 50, 60]


def test_failures_open_a_recovering_circuit_again() -> None:
    circuit = Circuit().recovering()
    assert circuit.report("ffff").state == "open"
    assert circuit.breaker.recovering_until_us == 0


# -- by hand


def test_a_forced_circuit_stays_as_it_is_until_further_notice() -> None:
    circuit = Circuit()
    (step,) = circuit.force("forced_open").transitions
    assert step == Transition(START, "closed", "forced_open", "a test", "ann")
    assert circuit.changed.keep_us == FORCED_KEEP_US > 40 * 12 * KEEP_US
    circuit.now += 10**15
    assert circuit.ask("a") == []
    assert circuit.report("oooo").state == "forced_open"
    assert circuit.force("forced_closed").state == "forced_closed"
    assert circuit.report("ffff").state == "forced_closed"
    assert circuit.ask("a", "b") == ["a", "b"]
    assert circuit.force("closed") == Standing("closed", 4, transitions=circuit.breaker.history[-1:])
    assert circuit.changed.keep_us == KEEP_US + POLICY.open_us


def test_a_reset_forgets_what_was_counted() -> None:
    circuit = Circuit()
    assert circuit.force("closed").transitions == ()
    assert circuit.body is None
    circuit.report("off")
    (step,) = circuit.force("closed").transitions
    assert (step.before, step.after) == ("closed", "closed")
    assert circuit.report("f").state == "closed"


def test_the_last_transitions_are_remembered() -> None:
    circuit = Circuit()
    for _ in range(HISTORY):
        circuit.force("forced_open")
        circuit.force("closed")
    assert circuit.breaker.generation == 2 * HISTORY + 1
    assert len(circuit.breaker.history) == HISTORY
    assert circuit.breaker.entered == {"forced_open": HISTORY, "closed": HISTORY}


# -- policies


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"failure_rate": 0}, "failure_rate is 0: use a share above 0 and at most 1"),
        ({"failure_rate": 50}, "failure_rate is 50"),
        ({"failure_rate": float("nan")}, "failure_rate is nan"),
        ({"slow_rate": -0.5}, "slow_rate is -0.5"),
        ({"window": 0}, "window is 0: use a whole number from 1 to 10000"),
        ({"window": 10_001}, "window is 10001"),
        ({"window": 2.5}, "window is 2.5"),
        ({"minimum": 0}, "minimum is 0: use a whole number from 1 to 100, the window"),
        ({"window": 5, "minimum": 6}, "minimum is 6: use a whole number from 1 to 5"),
        ({"slow_after_us": 0}, "slow_after is 0"),
        ({"open_us": 0}, "open_for is 0"),
        ({"open_us": 1.5}, "open_for is 1.5"),
        ({"probes": 0}, "probes is 0"),
        ({"probes": 10_001}, "probes is 10001"),
        ({"refill": 0}, "refill is 0: use more than 0"),
        ({"refill": float("inf")}, "refill is inf"),
    ],
)
def test_what_can_be_no_policy(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CircuitPolicy(**options)


def test_a_policy_may_change_between_calls() -> None:
    circuit = Circuit()
    circuit.report("oofo")
    circuit.policy = replace(POLICY, window=3, minimum=3)
    assert circuit.report("-").state == "closed"  # a new policy alone opens nothing
    assert circuit.breaker.policy.window == 3
    assert circuit.report("o").state == "closed"
    assert circuit.breaker.window == "foo"
    circuit.policy = None  # an operator knows none: the one in the register holds
    assert circuit.breaker.policy.window == 3
    assert circuit.report("ff").state == "open"


def test_a_half_open_circuit_that_needs_fewer_probes_now_is_judged() -> None:
    circuit = Circuit().half_opened()
    circuit.ask("a", "b", "c")
    circuit.report([("a", "o"), ("b", "o")])
    circuit.policy = replace(POLICY, probes=2)
    assert circuit.ask("d") == ["d"]
    assert [step.after for step in circuit.breaker.history] == ["open", "half_open", "closed"]


def test_the_start_of_an_outage_is_remembered_however_often_its_probes_fail() -> None:
    circuit = Circuit().opened()
    began, why = circuit.now, circuit.breaker.down_why
    assert why == "100% of 4 calls failed"
    for _ in range(HISTORY):
        circuit.now = circuit.breaker.until_us
        probes = circuit.ask("a", "b", "c")
        assert (circuit.breaker.down_since_us, circuit.breaker.down_why) == (began, why)
        circuit.report([(probe, "f") for probe in probes])
    assert (circuit.breaker.state, circuit.breaker.down_since_us, circuit.breaker.down_why) == ("open", began, why)
    assert circuit.breaker.since_us > began
    circuit.force("closed")
    assert (circuit.breaker.down_since_us, circuit.breaker.down_why) == (0, "")
    circuit.now += 1
    circuit.force("forced_open")
    assert (circuit.breaker.down_since_us, circuit.breaker.down_why) == (circuit.now, "a test")
