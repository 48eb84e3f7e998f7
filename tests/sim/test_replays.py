"""Histories with operators who replay what has failed, and die in the middle of it: nothing left out, nothing twice."""

from typing import Any

import msgspec
import pytest

from headrace.core import operations as ops
from headrace.core.replays import ReplayRun, TakeReplay
from headrace.failures import repairs
from headrace.failures.replaying import Driving
from headrace.inquiries import Inquiry
from headrace.stores.memory import Model
from headrace.testing.scenario import Scenario
from tests.contract.stores import DATABASES, open_driver
from tests.sim.histories import found, kept

CHUNK, SEEDS = 10, 40
PAGE = 3
STORES = ("sqlite", "redis", *DATABASES)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a few jobs fail, and in life thousands: a replay must find them over several pages too."""
    monkeypatch.setattr("headrace.failures.repairs.PAGE", PAGE)


def troubled(seed: int) -> Scenario:
    """The seed's troubles, and two operators."""
    return msgspec.structs.replace(Scenario.drawn(seed), jobs=40, operators=2)


def calm(seed: int) -> Scenario:
    """Nothing goes wrong but jobs and operators."""
    return Scenario(seed=seed, jobs=60, deadly=False, operators=2)


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_a_replay_leaves_nothing_out_and_makes_each_job_ready_once(start: int) -> None:
    replayed, ended = 0, list[str]()
    for seed in range(start, start + CHUNK):
        _, simulation = kept(troubled(seed))
        replayed += simulation.ledger.replays.replayed
        ended += [run.phase for run in simulation.ledger.replays.runs.values()]
    assert replayed > CHUNK
    assert {"done", "stopped"} <= set(ended)


@pytest.mark.parametrize("kind", STORES)
def test_so_it_is_on_each_store(kind: str, request: pytest.FixtureRequest) -> None:
    scenario = troubled(1 + STORES.index(kind))
    report, simulation = kept(scenario, open_store=lambda clock: open_driver(kind, clock, request))
    assert simulation.ledger.replays.runs
    assert report.ended["succeeded"] > 5


# -- each promise broken on purpose


class ForgetsWhenItFailed(Model):
    """So that two operators replay a job twice."""

    def _replay_one(self, id: str, now: int, before_us: int) -> str:
        return super()._replay_one(id, now, ops.FAR_US)


class SkipsOne(Model):
    """The last of each list stands on no page."""

    def _list(self, op: ops.List, now: int) -> ops.Page:
        page = super()._list(op, now)
        return page if page.next or len(page.jobs) < 2 else ops.Page(page.jobs[:-1], None)


@pytest.mark.parametrize(
    ("model", "expected"),
    [(ForgetsWhenItFailed, "had failed since its replay was started"), (SkipsOne, "was left out by")],
)
def test_a_store_that_breaks_a_promise_is_found_out(model: type[Model], expected: str) -> None:
    problems = found(map(calm, range(8)), model)
    assert any(expected in problem for problem in problems), problems


def sees_nothing(self: Driving, canary: Any) -> Inquiry[str]:
    return ""
    yield


def keeps_it(self: TakeReplay, run: ReplayRun, now_us: int) -> ReplayRun:
    return run if run.driver not in ("", self.driver) else TAKEN(self, run, now_us)


def takes_the_first_page(where: Any, between: Any = None) -> Inquiry[dict[str | None, list[str]]]:
    page: ops.Page = yield repairs._listing(where, PAGE, None)
    left: dict[str | None, list[str]] = {}
    for view in page.jobs:
        left.setdefault(view.queue, []).append(view.id)
    return left


TAKEN = TakeReplay.changed


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "expected"),
    [
        ("headrace.failures.replaying.Driving", "_verdict", sees_nothing, "goes on to all others"),
        ("headrace.core.replays.TakeReplay", "changed", keeps_it, "has not ended"),
        ("headrace.failures.replaying", "collect", takes_the_first_page, "was left out by"),
    ],
    ids=["blind", "clings", "short"],
)
def test_an_operator_who_breaks_a_promise_is_found_out(
    monkeypatch: pytest.MonkeyPatch, owner: str, name: str, wrong: Any, expected: str
) -> None:
    monkeypatch.setattr(f"{owner}.{name}", wrong)
    problems = found(map(calm, range(3)))
    assert any(expected in problem for problem in problems), problems
