"""Each promise is broken on purpose, in a store or in a worker, and the simulator must say so within a few seeds."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from headrace.core import operations as ops
from headrace.core import settle, trail
from headrace.core.states import State
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore, Model
from headrace.testing.faults import FaultRates
from headrace.testing.scenario import Move, Scenario
from headrace.testing.simulator import simulate
from headrace.worker import running, upkeep
from headrace.worker.settle import Settler
from headrace.worker.shared import Shared
from headrace.worker.table import Table

SEEDS = 80


def rules_broken(model: type[Model] = Model, *, expected: str) -> set[str]:
    """Rules of the first seed that breaks the expected one, else of all seeds."""
    seen: set[str] = set()
    for seed in range(SEEDS):
        report = simulate(seed, lambda clock: MemoryDriver(MemoryStore(now=clock), model()))
        found = {f"{one.rule}: {one.text}" for one in report.violations}
        seen |= found
        if any(expected in text for text in found):
            return found
    return seen


class ForgetsFencing(Model):
    def _settle_one(self, outcome: ops.Outcome, now: int) -> bool:
        job = self.jobs.get(outcome.id)
        token = outcome.token if job is None else job.token
        return super()._settle_one(msgspec.structs.replace(outcome, token=token), now)


class ForgetsTheDead(Model):
    """No tombstones: a repeated enqueue of a job that has ended makes it anew."""

    def _end(self, job: Any, state: State, now: int, keep_us: int) -> None:
        super()._end(job, state, now, keep_us)
        self.gone.pop(job.new.id)


class LosesEnqueues(Model):
    def _enqueue_one(self, new: ops.NewJob, now: int) -> ops.Enqueued:
        answer = super()._enqueue_one(new, now)
        if len(self.jobs) % 7 == 6:
            self.jobs.pop(new.id, None)
        return answer


class StoresTwice(Model):
    """Nothing checks the id."""

    def _enqueue_one(self, new: ops.NewJob, now: int) -> ops.Enqueued:
        self.jobs.pop(new.id, None)
        self.gone.pop(new.id, None)
        return super()._enqueue_one(new, now)


class RescuesTheLiving(Model):
    def _is_dead(self, worker: str, now: int) -> bool:
        return True


class RescuesNobody(Model):
    def _rescue(self, op: ops.Rescue, now: int) -> ops.Rescued:
        return ops.Rescued([])


class LetsTwoClaim(Model):
    def _take(self, job: Any, op: ops.Claim, now: int) -> None:
        super()._take(job, op, now)
        job.state = State.READY


class KeepsTheToken(Model):
    def _give_back(self, job: Any, state: State, due: int, now: int) -> None:
        token = job.token
        super()._give_back(job, state, due, now)
        job.token = token


class NeverFreesKeys(Model):
    def _holder(self, queue: str, key: str) -> str | None:
        return self.keys.get((queue, key), (None, 0))[0]

    def _free(self, job: Any) -> None:
        pass


class SharesKeys(Model):
    def _holder(self, queue: str, key: str) -> str | None:
        return None


class LeavesOrphans(Model):
    def _leave(self, op: ops.Leave, now: int) -> int:
        self.workers.pop(op.worker, None)
        return 0


class ForgetsLostReplies(Model):
    """What a lost claim reply has brought is never given back."""

    def _release(self, jobs: list[Any], now: int) -> None:
        pass


class RunsEarly(Model):
    def _enqueue_one(self, new: ops.NewJob, now: int) -> ops.Enqueued:
        return super()._enqueue_one(msgspec.structs.replace(new, delay_us=0), now)


class ForgetsCrashes(Model):
    def _rescue(self, op: ops.Rescue, now: int) -> ops.Rescued:
        rescued = super()._rescue(op, now)
        for orphan in rescued.jobs:
            if (job := self.jobs.get(orphan.id)) is not None:
                job.trail = orphan.trail
        return rescued


class DropsBodies(Model):
    def _claimed(self, job: Any) -> ops.ClaimedJob:
        return msgspec.structs.replace(super()._claimed(job), body=b"{}")


class IgnoresCancels(Model):
    def _cancel(self, op: ops.Cancel, now: int) -> str:
        return "cancelled" if op.id in self.jobs else "absent"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (ForgetsFencing, "stale token"),  # B008
        (ForgetsTheDead, "enqueued once"),
        (StoresTwice, "enqueued once"),
        (LosesEnqueues, "and is gone"),
        (RescuesTheLiving, "whose lease lives"),
        (RescuesNobody, "all ended"),
        (LetsTwoClaim, "one live lease"),
        (KeepsTheToken, "tokens grow"),
        (NeverFreesKeys, "unique key"),
        (SharesKeys, "unique key"),
        (LeavesOrphans, "no orphan"),
        (ForgetsLostReplies, "nobody held it"),
        (RunsEarly, "before it was due"),
        (ForgetsCrashes, "counts"),
        (DropsBodies, "another body"),
        (IgnoresCancels, "cancel"),
    ],
)
def test_a_store_that_breaks_a_promise_is_caught(model: type[Model], expected: str) -> None:
    found = rules_broken(model, expected=expected)
    assert any(expected in text for text in found), found


def charged(work: Any) -> None:
    """A deploy that counts as the handler's failure."""
    return


def forgetful(self: Settler, outcome: ops.Outcome) -> None:
    """Outcomes that are never reported."""


def empty_handed(self: Table) -> tuple[int, tuple[ops.Held, ...]]:
    """A heartbeat that names nothing that its worker holds."""
    return self.open_claim, ()


def hasty(crashed: trail.Trail, retry: Any) -> bool:
    """Convicts whoever was there."""
    return crashed.crashes >= retry.max_crashes


def costly_snooze(*args: Any, **named: Any) -> ops.Outcome:
    outcome = CONCLUDE(*args, **named)
    if outcome.reason != "snoozed":
        return outcome
    counts = trail.decode(outcome.trail)
    return msgspec.structs.replace(
        outcome, trail=trail.encode(msgspec.structs.replace(counts, attempts=counts.attempts + 1))
    )


def endless(*args: Any, **named: Any) -> bool:
    """No attempt is ever the last."""
    return False


CONCLUDE = settle.conclude


def found_in(scenarios: Iterable[Scenario]) -> set[str]:
    return {one.text for scenario in scenarios for one in simulate(0, scenario=scenario).violations}


def test_a_worker_that_rescues_at_once_after_an_outage_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """3b.4"""
    monkeypatch.setattr(upkeep, "CLEAN_BEATS", 0)
    outages = ((5.0, 17.0), (25.0, 37.0))
    found = found_in(Scenario(seed=seed, workers=3, outages=outages, deadly=False) for seed in range(20))
    assert any("an outage is no crash" in text for text in found), found


def test_a_worker_that_starts_jobs_after_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shared, "in_doubt", lambda shared, work: False)
    frosts = tuple(Move(at, "freeze", number, 20.0) for number, at in enumerate((5.0, 17.0, 30.0, 45.0)))
    found = found_in(
        Scenario(seed=seed, concurrency=1, jobs=80, moves=frosts, rates=FaultRates(delay_s=0.4)) for seed in range(15)
    )
    assert any("whose lease is over" in text for text in found), found


def test_a_worker_that_convicts_bystanders_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """3b.5"""
    monkeypatch.setattr(settle, "is_poison", hasty)
    monkeypatch.setattr(settle, "is_suspect", lambda *args: False)
    found = found_in(Scenario(seed=seed, concurrency=25, jobs=40) for seed in range(10))
    assert any("convicted after" in text for text in found), found


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "expected"),
    [
        (running, "interrupted", charged, "its run was interrupted"),  # B024
        (Settler, "add", forgetful, "all ended"),
        (Table, "snapshot", empty_handed, "which runs it"),
        (settle, "is_suspect", lambda *args: False, "all ended"),
        (settle, "conclude", costly_snooze, "outcome"),
        (settle, "_used_up", endless, "outcome"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_worker_that_breaks_a_promise_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any, expected: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    found = rules_broken(expected=expected)
    assert any(expected in text for text in found), found
