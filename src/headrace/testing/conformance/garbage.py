"""Guarantees about what is deleted: what was asked for or is over, oldest first, and never a living job."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import QUEUE, Harness, guarantee, job, outcome


@guarantee
def forget_deletes_ended_jobs_only(h: Harness) -> None:
    h.finished("failed", State.FAILED)
    h.finished("kept", State.SUCCEEDED, keep_us=60 * MICROSECONDS)
    h.running("running")
    h.put("ready", job("scheduled", delay_us=60 * MICROSECONDS))
    assert h.run(ops.Forget(("failed", "kept", "failed", "running", "ready", "scheduled", "nobody"))) == 2
    states = [h.state(id) for id in ("failed", "kept", "running", "ready", "scheduled")]
    assert states == [None, None, State.RUNNING, State.READY, State.SCHEDULED]
    assert h.queue().failed == 0


@guarantee
def a_forgotten_id_may_be_used_again(h: Harness) -> None:
    h.finished(job("a", derived=True), State.FAILED)
    assert h.run(ops.Forget(("a",), QUEUE)) == 1
    assert h.run(ops.Cancel("a")) == "absent"
    assert h.status("a") == "new"


@guarantee
def one_operation_forgets_thousands(h: Harness) -> None:
    names = _failures(h, 2_500)
    assert h.run(ops.Forget((*names, "nobody"))) == 2_500
    assert (h.queue().failed, h.listed(State.FAILED)) == (0, [])


def _failures(h: Harness, count: int, queue: str = QUEUE, task: str = "task") -> list[str]:
    names = [f"{queue}-{task}-{n:04}" for n in range(count)]
    h.put(*(job(name, queue, task=task) for name in names))
    assert all(h.settle_all(outcome(each, State.FAILED) for each in h.take(count, queues=(queue,))))
    return names


@guarantee
def prune_deletes_failed_jobs_by_age(h: Harness) -> None:
    h.finished("old", State.FAILED)
    finished = h.get("old").finished_us or 0
    h.clock.advance(100)
    h.finished("new", State.FAILED)
    h.clock.advance_us(finished + 3600 * MICROSECONDS - 2 - h.clock())
    assert h.prune(age_us=3600 * MICROSECONDS) == 0
    assert h.prune(age_us=3600 * MICROSECONDS) == 1
    assert (h.state("old"), h.state("new")) == (None, State.FAILED)


@guarantee
def prune_deletes_the_oldest_failed_jobs_beyond_a_count(h: Harness) -> None:
    for n in range(6):
        h.finished(f"{n}", State.FAILED)
    assert h.prune(most=6) == 0
    assert h.prune(most=2) == 4
    assert h.listed(State.FAILED) == ["5", "4"]
    assert h.prune(most=0) == 2


@guarantee
def retention_bounds_the_failed_jobs(h: Harness) -> None:
    """B025: 2,500 failures, 1,000 kept, in bounded steps; the unique keys are consistent."""
    _failures(h, 1_500)
    h.clock.advance(1)
    h.put(*(job(f"k{n:04}", unique=f"{n}") for n in range(1_000)))
    assert all(h.settle_all(outcome(each, State.FAILED) for each in h.take(1_000)))
    rounds = []
    while (pruned := h.run(ops.Prune(most=1_000, limit=700))).more:
        rounds.append(pruned.failed)
    assert [*rounds, pruned.failed] == [700, 700, 100]
    assert h.queue().failed == 1_000
    assert h.prune(most=0, limit=5_000) == 1_000
    assert h.listed(State.FAILED) == []
    h.clock.advance(61)
    h.put(*(job(f"k{n:04}", unique=f"{n}") for n in range(1_000)))


@guarantee
def prune_is_bounded_and_takes_the_oldest_first(h: Harness) -> None:
    for n in range(5):
        h.finished(f"{n}", State.FAILED)
    h.clock.advance(10)
    assert h.run(ops.Prune(age_us=0, limit=2)) == ops.Pruned(2, more=True)
    assert h.listed(State.FAILED) == ["4", "3", "2"]
    assert h.run(ops.Prune(age_us=0, limit=3)) == ops.Pruned(3, more=False)


@guarantee
def prune_keeps_to_its_filters(h: Harness) -> None:
    for queue in ("q1", "q2"):
        for task in ("t1", "t2"):
            _failures(h, 2, queue, task)
    assert h.prune(most=0, queue="q1", task="t1") == 2
    assert h.prune(most=1, task="t1") == 1
    assert h.prune(age_us=0, queue="q1") == 2
    assert sorted(h.listed(State.FAILED)) == ["q2-t1-0001", "q2-t2-0000", "q2-t2-0001"]


@guarantee
def prune_without_bounds_leaves_failed_jobs(h: Harness) -> None:
    h.finished("a", State.FAILED)
    h.clock.advance(10 * 365 * 24 * 3600)
    assert h.prune() == 0
    assert h.state("a") == State.FAILED


@guarantee
def prune_never_touches_living_jobs(h: Harness) -> None:
    h.running("running")
    h.put("ready", job("scheduled", delay_us=10**15), job("unique", unique="k", unique_us=1))
    assert h.settle(h.running(job("parked", "q2")), State.PARKED)
    h.clock.advance(10 * 365 * 24 * 3600)
    assert h.prune(age_us=0, most=0) == 0
    states = [h.state(id) for id in ("running", "ready", "scheduled", "unique", "parked")]
    assert states == [State.RUNNING, State.READY, State.SCHEDULED, State.READY, State.PARKED]
    assert h.status(job("again", unique="k")) == "duplicate"


@guarantee
def kept_jobs_go_when_their_time_is_over(h: Harness) -> None:
    h.finished("a", State.SUCCEEDED, keep_us=100 * MICROSECONDS)
    h.finished("b", State.CANCELLED, keep_us=200 * MICROSECONDS)
    h.clock.advance(99)
    assert h.prune() == 0
    assert h.state("a") == State.SUCCEEDED
    h.clock.advance(2)
    assert h.prune() == 0
    assert (h.state("a"), h.state("b")) == (None, State.CANCELLED)
    assert h.status("a") == "new"


@guarantee
def prune_says_when_kept_jobs_are_left(h: Harness) -> None:
    """However many end in a minute: whoever calls on while there is more keeps up with them."""
    names = [f"{n:02}" for n in range(25)]
    h.put(*names, "later")
    ended = [outcome(each, State.SUCCEEDED, keep_us=MICROSECONDS) for each in h.take(25)]
    assert all(h.settle_all(ended))
    assert h.settle(h.take(1)[0], State.SUCCEEDED, keep_us=600 * MICROSECONDS)
    assert h.run(ops.Prune(limit=10)) == ops.Pruned(0, more=False)
    h.clock.advance(2)
    rounds = 0
    while h.run(ops.Prune(limit=10)).more:
        rounds += 1
        assert 0 < len(h.listed(State.SUCCEEDED)) < 26
        assert rounds < 10, "more and more, and nothing goes"
    assert rounds > 0
    assert h.listed(State.SUCCEEDED) == ["later"]


@guarantee
def prune_says_when_all_is_done(h: Harness) -> None:
    """Tombstones and stray keys are cleared away in steps that come to an end."""
    for n in range(12):
        h.finished(job(f"{n}", unique=f"k{n}", unique_us=1))
    h.clock.advance(3 * 24 * 3600)
    rounds = 0
    while h.run(ops.Prune(limit=5)).more:
        rounds += 1
        assert rounds < 12, "more and more, and nothing goes"
    assert [h.status(f"{n}") for n in range(12)] == ["new"] * 12
