"""Histories with a task that kills every worker of the old code: it is held, and its jobs go on under the latest."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from headrace.core import trail
from headrace.core.hold import Convict, Hold, OfferHeld
from headrace.core.operations import Outcome
from headrace.core.registers import Changed
from headrace.core.states import State
from headrace.testing.holds import AFTER, TOXIC
from headrace.testing.scenario import Move, Scenario
from headrace.worker.holds import Holds, OfHolds
from headrace.worker.parked import Coming
from headrace.worker.table import Work
from tests.contract.stores import DATABASES, open_driver
from tests.sim.histories import found, kept

CHUNK, SEEDS = 10, 30
STORES = ("sqlite", "redis", *DATABASES)
ALL_OLD = tuple(Move(0.0, "rollback", number, 0.0) for number in range(3))


def troubled(seed: int) -> Scenario:
    """The seed's troubles, twelve toxic jobs, code that comes and goes, and an operator who frees their task."""
    drawn, rng = Scenario.drawn(seed), Random(f"{seed} code")
    changes = [
        Move(rng.random() * drawn.chaos_s, rng.choice(("deploy", "rollback", "free", "free")), number, 0.0)
        for number in range(rng.choice((1, 3)))
    ]
    moves = sorted((*ALL_OLD, *drawn.moves, *changes), key=lambda move: move.at_s)
    return msgspec.structs.replace(drawn, jobs=4, toxic=12, lease_s=5.0, heartbeat_s=1.6, moves=tuple(moves))


def calm(seed: int) -> Scenario:
    """Nothing goes wrong but the old code, which one worker of three exchanges soon, and the others in the end."""
    scenario = Scenario(seed=seed, workers=3, jobs=10, toxic=30, chaos_s=30.0, lease_s=2.0, heartbeat_s=0.5)
    return msgspec.structs.replace(scenario, deadly=False, moves=(*ALL_OLD, Move(5.0, "deploy", 0, 0.0)))


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_a_task_that_is_held_strands_no_job(start: int) -> None:
    """Whatever becomes of workers and of the way to the store, each job has ended under the latest code."""
    held = parked = 0
    for seed in range(start, start + CHUNK):
        _, simulation = kept(troubled(seed))
        held += bool(simulation.holds.held)
        parked += simulation.holds.parked
    assert held > CHUNK / 4
    assert parked > CHUNK / 4


@pytest.mark.parametrize("seed", range(3))
def test_once_it_is_held_no_worker_dies_of_it_but_those_that_run_one(seed: int) -> None:
    """And those that have not looked yet. Its jobs come back at a pace: what is checked besides is the simulator's."""
    _, simulation = kept(calm(seed))
    holds, entries = simulation.holds, simulation.ledger.jobs
    failed = {id for id, entry in entries.items() if entry.new.task == TOXIC and entry.state is State.FAILED}
    assert holds.convicted == {"1": failed}
    assert len(failed) >= AFTER
    assert holds.parked > 20
    assert sum(count for _, count in holds.back) > 20


@pytest.mark.parametrize("kind", STORES)
def test_so_it_is_on_each_store(kind: str, request: pytest.FixtureRequest) -> None:
    _, simulation = kept(calm(STORES.index(kind)), lambda clock: open_driver(kind, clock, request))
    assert simulation.holds.parked > 0


# -- each promise broken on purpose


async def gives_nothing_back(self: OfHolds, reasons: Sequence[str]) -> Coming:
    return Coming({})


def counts_every_crash(self: Holds, work: Work, outcome: Outcome) -> None:
    if trail.decode(work.job.trail).crashes:
        outcome = msgspec.structs.replace(outcome, state=State.FAILED, reason="crashed")
    NOTE(self, work, outcome)


def counts_under_its_own(self: Convict, body: bytes | None, now_us: int) -> Changed:
    return CONVICT(msgspec.structs.replace(self, ran=True), body, now_us)


def in_a_rush(self: OfferHeld, body: bytes | None, now_us: int) -> Changed:
    return msgspec.structs.replace(OFFER(self, body, now_us), answer=100)


def held_everywhere(self: Holds, holds: Sequence[Hold]) -> None:
    self._held = frozenset(hold.task for hold in holds if any(one.held for one in hold.versions))


NOTE, CONVICT, OFFER = Holds.note, Convict.apply, OfferHeld.apply


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "expected"),
    [
        (Holds, "ending", lambda self, work: None, "starts under version 1"),
        (OfHolds, "__call__", gives_nothing_back, "all ended: is still parked"),
        (OfHolds, "_is_for_us", lambda self, task, one: True, "gives back what is held under its own version"),
        (OfferHeld, "apply", in_a_rush, "jobs are given back within a second"),
        (Holds, "note", counts_every_crash, "and was convicted of killing its workers"),
        (Convict, "apply", counts_under_its_own, "and is convicted under version 2"),
        (Holds, "learn", held_everywhere, "all ended: is still parked"),
    ],
    ids=["ignores", "strands", "frees itself", "rushes", "counts all", "blames itself", "holds all"],
)
def test_a_worker_that_breaks_a_promise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, expected: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    problems = found(map(calm, range(5)))
    assert any(expected in problem for problem in problems), problems


def test_a_worker_that_does_not_ask_before_a_suspect_runs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def may_run(self: Holds, work: Work) -> bool:
        return True

    monkeypatch.setattr(Holds, "may_run", may_run)
    monkeypatch.setattr(Holds, "ending", lambda self, work: None)  # else it seldom comes to that
    problems = found(map(calm, range(5)))
    assert any("runs alone under version 1" in problem for problem in problems), problems
