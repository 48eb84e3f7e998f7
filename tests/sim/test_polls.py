"""Histories with polls: whatever happens to workers, each end of its own has enqueued exactly one hook."""

from typing import Any

import msgspec
import pytest

from headrace.core import operations as ops
from headrace.core.codec import Envelope
from headrace.core.states import State
from headrace.drivers.memory import MemoryDriver
from headrace.polling import PollTask
from headrace.stores.memory import MemoryStore, Model
from headrace.testing.scenario import Scenario
from headrace.testing.simulator import Report, simulate
from headrace.worker import ending

CHUNK, SEEDS = 10, 60


def with_polls(seed: int, model: type[Model] = Model) -> Report:
    """A history of the seed's troubles with twelve polls more."""
    scenario = msgspec.structs.replace(Scenario.drawn(seed), jobs=6, polls=12)
    return simulate(seed, lambda clock: MemoryDriver(MemoryStore(now=clock), model()), scenario)


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_each_poll_ends_with_one_hook(start: int) -> None:
    ended = dict[str, int]()
    for seed in range(start, start + CHUNK):
        report = with_polls(seed)
        if report.violations:
            pytest.fail(report.explain(), pytrace=False)
        for state, count in report.ended.items():
            ended[state] = ended.get(state, 0) + count
    assert ended["succeeded"] > 100
    assert ended["expired"] > 5


class ForgetsWhatFollows(Model):
    def _settle_one(self, outcome: ops.Outcome, now: int) -> bool:
        if outcome.state is State.EXPIRED:
            outcome = msgspec.structs.replace(outcome, then=())
        return super()._settle_one(outcome, now)


def rules_broken(model: type[Model] = Model) -> set[str]:
    """Rules that the first history with a violation breaks."""
    for seed in range(SEEDS):
        broken = {one.rule for one in with_polls(seed, model).violations}
        if broken:
            return broken
    return set()


def test_a_store_that_forgets_what_follows_is_found_out() -> None:
    assert "as recorded" in rules_broken(ForgetsWhatFollows)


def test_a_worker_that_forgets_the_hooks_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "follow", lambda work, how, outcome: outcome)
    assert rules_broken() == {"one hook"}


def test_a_worker_that_takes_the_wrong_hook_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(task: PollTask[..., Any], poll: ops.ClaimedJob, envelope: Envelope, value: object) -> Any:
        return task.follower_in_vain(poll, envelope)

    monkeypatch.setattr(PollTask, "follower", wrong)
    assert rules_broken() == {"one hook"}
