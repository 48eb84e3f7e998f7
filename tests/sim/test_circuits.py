"""Histories with a service that is down for stretches: its circuit holds jobs back, harms none, and strands none."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from headrace.core import operations as ops
from headrace.core import settle, trail
from headrace.core.circuit import AskCircuit, Breaker
from headrace.core.parking import Unpark
from headrace.core.states import State
from headrace.stores.memory import Model
from headrace.testing.circuits import OPEN_S, PROBES, REFILL, draw_stretches
from headrace.testing.scenario import Move, Scenario
from headrace.worker.parked import Coming, OfCircuits
from headrace.worker.passes import Pass
from tests.contract.stores import DATABASES, open_driver
from tests.sim.histories import found, kept

CHUNK, SEEDS = 10, 40
STORES = ("sqlite", "redis", *DATABASES)


def troubled(seed: int) -> Scenario:
    """The seed's troubles, forty calls of a service that is down now and then, and an operator who forces a circuit."""
    drawn, rng = Scenario.drawn(seed), Random(f"{seed} service")
    down = draw_stretches(rng, drawn.chaos_s)
    forced = [
        Move(rng.random() * drawn.chaos_s, rng.choice(("force open", "force closed")), 0, 0.0)
        for _ in range(rng.choice((0, 0, 0, 1, 3)))
    ]
    moves = sorted((*drawn.moves, *forced), key=lambda move: move.at_s)
    return msgspec.structs.replace(drawn, jobs=4, calls=40, down=down, moves=tuple(moves))


def calm(seed: int) -> Scenario:
    """Nothing goes wrong but the service."""
    return Scenario(seed=seed, workers=3, concurrency=5, jobs=20, calls=100, deadly=False, down=((10.0, 40.0),))


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_a_circuit_holds_jobs_back_and_strands_none(start: int) -> None:
    """Whatever becomes of workers and of the way to the store, each job ends, and none is charged for its wait."""
    opened = probes = 0
    for seed in range(start, start + CHUNK):
        _, simulation = kept(troubled(seed))
        opened += simulation.ledger.circuit.opened
        probes += simulation.ledger.circuit.probes
    assert opened > CHUNK / 2
    assert probes > CHUNK / 2


@pytest.mark.parametrize("seed", range(4))
def test_after_a_circuit_has_opened_there_are_probes_only(seed: int) -> None:
    """But for what was under way: no longer than a claim and a report take. And then calls come back at a pace."""
    scenario = calm(seed)
    assert scenario.late_s < 0.3
    report, simulation = kept(scenario)
    until_opened = 3 + scenario.workers * scenario.concurrency
    assert 3 <= simulation.ledger.circuit.in_vain <= until_opened + PROBES * (30 / OPEN_S + 1)
    paced_s = simulation.ledger.circuit.paced_s
    assert len(paced_s) > 30
    # one more than the refill of a second may come at once, and one may have been under way
    assert all(later_s - sooner_s > 1 for sooner_s, later_s in zip(paced_s, paced_s[REFILL + 2 :], strict=False))
    assert report.ended["succeeded"] > 80


@pytest.mark.parametrize("kind", STORES)
def test_so_it_is_on_each_store(kind: str, request: pytest.FixtureRequest) -> None:
    scenario = msgspec.structs.replace(troubled(1 + STORES.index(kind)), calls=20)
    report, _ = kept(scenario, open_store=lambda clock: open_driver(kind, clock, request))
    assert report.ended["succeeded"] > 5


# -- each promise broken on purpose


class ClaimsParkedJobs(Model):
    """Now and then one of them."""

    def _claim(self, op: ops.Claim, now: int) -> ops.Claimed:
        parked = [job for job in self.jobs.values() if job.state is State.PARKED]
        if parked and op.number % 10 == 0:
            parked[0].state = State.READY
        return super()._claim(op, now)


class ForgetsParkedJobs(Model):
    def _unpark(self, op: Unpark, now: int) -> int:
        return 0


@pytest.mark.parametrize(
    ("model", "expected"), [(ClaimsParkedJobs, "while it was parked"), (ForgetsParkedJobs, "is still parked")]
)
def test_a_store_that_breaks_a_promise_is_found_out(model: type[Model], expected: str) -> None:
    problems = found(map(calm, range(3)), model)
    assert any(expected in problem for problem in problems), problems


async def offers_nothing(self: OfCircuits, reasons: Sequence[str]) -> Coming:
    return Coming({})


def charged(*args: Any) -> ops.Outcome:
    outcome = HELD_BACK(*args)
    return msgspec.structs.replace(outcome, trail=trail.encode(trail.Trail(attempts=1)))


def lets_all_in(self: AskCircuit, breaker: Breaker, calls: list[str], now_us: int) -> tuple[Breaker, list[str]]:
    return breaker, calls


HELD_BACK = settle._held_back


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "expected"),
    [
        (Pass, "ending", lambda self, standings: None, "open circuit: calls a service whose circuit is open"),
        (OfCircuits, "__call__", offers_nothing, "all ended: is still parked"),
        (settle, "_held_back", charged, "it was parked, which costs nothing"),
        (AskCircuit, "_probes", lets_all_in, "probes: "),  # B162
    ],
    ids=["ignores", "strands", "charges", "floods"],
)
def test_a_worker_that_breaks_a_promise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, expected: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    problems = found(map(calm, range(3)))
    assert any(expected in problem for problem in problems), problems
