"""Histories with a retry budget: retries never outgrow their share of the first attempts, and each has its turn."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from headrace.core.budget import RetryBudget, SpendRetries
from headrace.core.registers import Changed
from headrace.testing.circuits import draw_stretches
from headrace.testing.scenario import Scenario
from headrace.worker.feedback import Feedback
from headrace.worker.gates import Gates
from headrace.worker.passes import Pass
from tests.contract.stores import DATABASES, open_driver
from tests.sim.histories import found, kept

CHUNK, SEEDS = 5, 20
STORES = ("sqlite", "redis", *DATABASES)
BUDGET = RetryBudget(share=0.2, window=60, minimum=8)
PATIENCE_S = 700  # when there are no first attempts any more, eight retries a minute are left


def troubled(seed: int) -> Scenario:
    """The seed's troubles, and calls of a service that is down now and then."""
    drawn, rng = Scenario.drawn(seed), Random(f"{seed} budget")
    # a clock that is set back forgets what has been spent since; that is worth no counting by another clock
    moves = tuple(move for move in drawn.moves if move.what != "jump")
    down = draw_stretches(rng, drawn.chaos_s)
    return msgspec.structs.replace(
        drawn, jobs=4, calls=25, down=down, retry_budget=BUDGET, moves=moves, patience_s=PATIENCE_S
    )


def calm(seed: int) -> Scenario:
    """Nothing goes wrong but the service."""
    return Scenario(
        seed=seed,
        workers=3,
        jobs=4,
        calls=60,
        deadly=False,
        down=((10.0, 30.0),),
        retry_budget=BUDGET,
        patience_s=PATIENCE_S,
    )


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_retries_keep_to_their_budget_and_all_have_their_turn(start: int) -> None:
    retries = 0
    for seed in range(start, start + CHUNK):
        _, simulation = kept(troubled(seed))
        retries += len(simulation.budget.retries_s)
    assert retries > CHUNK


@pytest.mark.parametrize("seed", range(2))
def test_the_budget_is_spent(seed: int) -> None:
    """It is a bound, and no obstacle: somebody waited for it, and as many as it lets in were made."""
    report, simulation = kept(calm(seed))
    waited = sum("retry budget" in str(event) for event in simulation.trace.events)
    assert waited > 5
    assert len(simulation.budget.retries_s) >= 10
    assert report.ended["succeeded"] > 50


@pytest.mark.parametrize("kind", STORES)
def test_so_it_is_on_each_store(kind: str, request: pytest.FixtureRequest) -> None:
    scenario = msgspec.structs.replace(troubled(1 + STORES.index(kind)), calls=12)
    report, simulation = kept(scenario, open_store=lambda clock: open_driver(kind, clock, request))
    assert simulation.budget.retries_s
    assert report.ended["succeeded"] > 5


# -- each promise broken on purpose


def grants_all(self: SpendRetries, body: bytes | None, now_us: int) -> Changed:
    return Changed(body, self.retries, self.budget.window_us)


def grants_none(self: SpendRetries, body: bytes | None, now_us: int) -> Changed:
    return Changed(body, 0, self.budget.window_us)


def does_not_listen(self: Gates, register: str, passes: Sequence[Pass], granted: int) -> None:
    return


def gives_back_what_was_used(self: Feedback, one: Pass, *, made: bool) -> None:
    NOTE_SPENDING(self, one, made=made and not one.is_retry)


NOTE_SPENDING = Feedback._note_spending


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "expected"),
    [
        (SpendRetries, "apply", grants_all, "is retry"),
        (SpendRetries, "apply", grants_none, "is still scheduled"),
        (Gates, "_grant", does_not_listen, "is retry"),
        (Feedback, "_note_spending", gives_back_what_was_used, "is retry"),
    ],
    ids=["generous", "mean", "deaf", "forgetful"],
)
def test_a_budget_that_is_not_kept_is_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, expected: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    problems = found(map(calm, range(2)))
    assert any(expected in problem for problem in problems), problems
