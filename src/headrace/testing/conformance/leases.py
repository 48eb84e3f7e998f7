"""Guarantees about leases: a live worker keeps its jobs, a dead one loses them once, and nobody else pays for it."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, flat, guarantee, held, ids, job


@guarantee
def a_beat_keeps_all_jobs_of_its_worker(h: Harness) -> None:
    h.put("a", job("b", "q2"))
    claims = h.take(2, queues=(QUEUE, "q2"))
    for _ in range(5):
        h.clock.advance_us(LEASE - 10)
        beaten = h.beat(*claims, queues=(QUEUE, "q2"))
        assert (beaten.now_us, beaten.lost, beaten.cancel, beaten.released) == (h.clock(), [], [], 0)
        assert h.rescue((QUEUE, "q2")) == []
    assert [h.settle(each, State.SUCCEEDED) for each in claims] == [True, True]


@guarantee
def a_rescue_takes_nothing_before_the_lease_is_over(h: Harness) -> None:
    h.put("a")
    claimed = h.claim(1)
    h.clock.advance_us(claimed.now_us + LEASE - h.clock() - 2)
    assert (h.rescue(), h.clock()) == ([], claimed.now_us + LEASE - 1)
    assert ids(h.rescue()) == ["a"]


@guarantee
def a_lease_that_is_over_but_not_rescued_is_extended(h: Harness) -> None:
    """An outage of the store is no crash: after it, the worker beats and keeps its jobs."""
    claimed = h.running("a")
    h.clock.advance_us(10 * LEASE)
    assert h.beat(claimed).lost == []
    assert h.rescue() == []
    assert h.settle(claimed, State.SUCCEEDED)


@guarantee
def a_lease_counts_from_the_last_beat_when_the_clock_is_set_back(h: Harness) -> None:
    """A lease that only ever grew would last until the clock has caught up, and so long a dead worker's jobs wait."""
    claimed = h.running("a")
    h.clock.jump(-3600)
    assert h.beat(claimed).lost == []
    assert {view.lease_until_us - h.clock() for view in h.run(ops.Workers())} == {LEASE - 1}
    h.clock.advance_us(LEASE - 10)
    assert h.rescue() == []
    h.clock.advance_us(10)
    assert ids(h.rescue()) == ["a"]
    again = h.take(1, worker="w2")[0]
    h.clock.jump(-3600)
    h.claim(0, worker="w2")  # a claim is as much a sign of life as a beat
    h.clock.advance_us(LEASE)
    assert [(orphan.id, orphan.token) for orphan in h.rescue()] == [("a", again.token)]


@guarantee
def a_rescue_that_comes_too_late_changes_nothing(h: Harness) -> None:
    """The clock has jumped ahead since its caller's last beat: the leases of the living look over as well."""
    claimed = h.running("a")
    h.claim(0, worker="idle")
    h.clock.jump(3600)
    before = h.run(ops.Workers())
    assert h.run(ops.Rescue((QUEUE,), not_after_us=h.clock())).jobs == []  # a microsecond has passed since
    assert h.run(ops.Workers()) == before
    assert h.get("a").state == State.RUNNING
    assert h.beat(claimed).lost == []
    h.clock.advance_us(LEASE)
    assert ids(h.run(ops.Rescue((QUEUE,), not_after_us=h.clock() + 1)).jobs) == ["a"]


@guarantee
def a_settle_after_the_lease_but_before_a_rescue_counts(h: Harness) -> None:
    claimed = h.running("a")
    h.clock.advance_us(10 * LEASE)
    assert h.settle(claimed, State.SUCCEEDED)
    assert h.rescue() == []


@guarantee
def a_rescued_job_runs_again_with_one_crash_more(h: Harness) -> None:
    claimed = h.running("a")
    orphans = h.crash()
    assert orphans == [ops.Orphan("a", QUEUE, claimed.token, "w1", None, alone=True)]
    view = h.get("a")
    assert (view.state, view.reason, view.worker) == (State.READY, "crashed", None)
    again = h.take(1, worker="w2")[0]
    assert again.token > claimed.token
    memory = trail.decode(again.trail)
    assert (memory.crashes, memory.alone, memory.attempts, memory.errors, memory.releases) == (1, True, 0, 0, 0)
    assert [(mishap.kind, mishap.worker) for mishap in memory.history] == [("crash", "w1")]
    assert memory.history[0].at_us <= h.clock()
    assert not h.settle(claimed, State.SUCCEEDED)
    assert h.settle(again, State.SUCCEEDED, worker="w2")


@guarantee
def every_crash_is_counted_once(h: Harness) -> None:
    h.put("a")
    for crashes in (1, 2, 3):
        h.take(1, worker=f"w{crashes}")
        assert len(h.crash()) == 1
        assert h.rescue() == []
        assert trail.decode(h.get("a").trail).crashes == crashes
    assert len(trail.decode(h.get("a").trail).history) == 3


@guarantee
def a_crash_in_company_convicts_nobody(h: Harness) -> None:
    """`alone` is true only where the dead worker held nothing else, in whatever queue."""
    h.put("a", job("b", "q2"))
    h.take(2, queues=(QUEUE, "q2"))
    h.put(job("c", "q3"))
    h.take(1, worker="w2", queues=("q3",))
    h.clock.advance_us(LEASE)
    orphans = {orphan.id: orphan.alone for orphan in h.rescue((QUEUE, "q2", "q3"))}
    assert orphans == {"a": False, "b": False, "c": True}
    assert [trail.decode(h.get(id).trail).alone for id in "abc"] == [False, False, True]


@guarantee
def a_crash_of_a_worker_with_many_jobs_counts_for_each(h: Harness) -> None:
    h.put(*(f"{n:02}" for n in range(25)))
    h.take(25)
    assert {orphan.alone for orphan in h.crash()} == {False}
    for claimed in h.take(25, worker="w2"):
        memory = trail.decode(claimed.trail)
        assert (memory.crashes, memory.alone) == (1, False)


@guarantee
def a_rescue_takes_only_from_the_dead(h: Harness) -> None:
    h.put("a", "b")
    h.take(1, worker="dead")
    h.clock.advance_us(LEASE // 2)
    alive = h.take(1, worker="alive")[0]
    h.clock.advance_us(LEASE // 2)
    assert [(orphan.id, orphan.worker) for orphan in h.rescue()] == [("a", "dead")]
    assert h.settle(alive, State.SUCCEEDED, worker="alive")


@guarantee
def a_rescue_after_the_workers_row_was_swept_still_finds_its_jobs(h: Harness) -> None:
    """B013: rescues of other queues and a prune come first; the job must not become invisible."""
    h.running("a")
    h.clock.advance_us(10 * LEASE)
    assert h.rescue(("q2",)) == []
    h.run(ops.Prune())
    assert ids(h.rescue()) == ["a"]
    assert h.state("a") == State.READY


@guarantee
def a_rescue_is_bounded_to_the_next_whole_worker(h: Harness) -> None:
    h.put(*"abcdefg")
    for worker, count in (("w1", 2), ("w2", 1), ("w3", 2), ("w4", 2)):
        h.take(count, worker=worker)
    h.clock.advance_us(LEASE)
    assert [len(h.rescue(limit=3)), len(h.rescue(limit=1)), len(h.rescue(limit=9)), len(h.rescue())] == [3, 2, 2, 0]


@guarantee
def a_dead_worker_is_rescued_whole(h: Harness) -> None:
    """By whoever serves one of its queues: rescued in parts, the last job would look as if it had been alone."""
    h.put("a", job("b", "q2"), job("c", "q3"), job("other", "q4"))
    h.take(3, queues=(QUEUE, "q2", "q3"))
    h.take(1, worker="w2", queues=("q4",))
    h.clock.advance_us(LEASE)
    orphans = {orphan.id: orphan.alone for orphan in h.rescue(("q2",), limit=1)}
    assert orphans == {"a": False, "b": False, "c": False}
    assert h.rescue((QUEUE, "q2", "q3")) == []
    assert [(orphan.id, orphan.alone) for orphan in h.rescue(("q4",))] == [("other", True)]
    assert [trail.decode(h.get(id).trail).alone for id in "abc"] == [False] * 3


@guarantee
def a_rescued_job_goes_back_to_the_head(h: Harness) -> None:
    h.put("a", "b", "c")
    h.take(2)
    h.put("d")
    h.crash()
    assert ids(h.claim(10, worker="w2").jobs) == ["a", "b", "c", "d"]


@guarantee
def a_worker_learns_what_it_lost(h: Harness) -> None:
    h.put("a", "b", "c")
    claims = h.take(3)
    h.crash()
    assert ids(h.take(1, worker="w2")) == ["a"]
    assert sorted(h.beat(*claims).lost, key=lambda each: each.id) == [held(each) for each in claims]
    assert h.settle_all([]) == []
    assert [h.settle(each, State.SUCCEEDED) for each in claims] == [False, False, False]


@guarantee
def a_job_that_came_back_to_its_worker_is_lost_under_its_old_token(h: Harness) -> None:
    old = h.running("a")
    h.crash()
    new = h.take(1)[0]
    assert h.beat(old).lost == [held(old)]
    assert h.beat(new).lost == []


@guarantee
def a_claim_whose_reply_was_lost_goes_back_as_released(h: Harness) -> None:
    """Nobody will run it; it is no crash and costs nothing."""
    h.put("a", "b")
    h.claim(1, number=1)
    known = h.claim(1, number=2).jobs
    beaten = h.beat(*known, open_claim=2)
    assert (beaten.lost, beaten.released) == ([], 1)
    view = h.get("a")
    assert (view.state, view.reason, view.worker) == (State.READY, "released", None)
    memory = trail.decode(view.trail)
    assert (memory.releases, memory.crashes, memory.attempts, memory.history) == (1, 0, 0, ())
    assert h.beat(*known, open_claim=2).released == 0
    assert h.beat(*known, open_claim=99).released == 0  # what the worker knows stays with it
    assert ids(h.claim(5, worker="w2").jobs) == ["a"]
    assert h.settle(known[0], State.SUCCEEDED)


@guarantee
def a_claim_that_is_still_open_is_left_alone(h: Harness) -> None:
    """Its reply may be on the way."""
    h.put("a")
    claimed = h.claim(1, number=4).jobs
    assert h.beat(open_claim=4).released == 0
    assert h.settle(claimed[0], State.SUCCEEDED)


@guarantee
def a_beat_tells_who_asked_to_cancel(h: Harness) -> None:
    h.put("a", "b")
    claims = h.take(2)
    assert h.run(ops.Cancel("b")) == "requested"
    beaten = h.beat(*claims)
    assert (beaten.cancel, beaten.lost) == ([held(claims[1])], [])
    assert h.beat(*claims).cancel == [held(claims[1])]


@guarantee
def a_beat_registers_a_worker_that_holds_nothing(h: Harness) -> None:
    h.beat(worker="new")
    rows = [view for view in h.run(ops.Workers()) if view.worker == "new"]
    assert rows
    assert {view.lease_until_us for view in rows} == {h.clock() - 1 + LEASE}


@guarantee
def a_worker_that_leaves_gives_everything_back_unharmed(h: Harness) -> None:
    h.put("a", job("b", "q2"), "c")
    claims = h.take(2, queues=(QUEUE, "q2"), worker="w1")
    assert h.run(ops.Leave("w1", (QUEUE, "q2"))) == 2
    assert h.run(ops.Leave("w1", (QUEUE, "q2"))) == 0
    assert [view.worker for view in h.run(ops.Workers())] == []
    for each in claims:
        view = h.get(each.id)
        memory = trail.decode(view.trail)
        assert (view.state, memory.releases, memory.crashes, memory.attempts) == (State.READY, 1, 0, 0)
        assert not h.settle(each, State.SUCCEEDED)
    assert sorted(ids(h.claim(5, queues=(QUEUE, "q2"), worker="w2").jobs)) == ["a", "b", "c"]


@guarantee
def a_dead_worker_without_jobs_is_swept(h: Harness) -> None:
    h.claim(1)
    h.clock.advance_us(LEASE)
    h.rescue()
    assert h.run(ops.Workers()) == []


@guarantee
def a_cancelled_job_whose_worker_died_ends_cancelled(h: Harness) -> None:
    """B058: nothing stays in cancelling."""
    h.running(job("a", unique="k"))
    assert h.run(ops.Cancel("a")) == "requested"
    orphans = h.crash()
    assert [(orphan.id, orphan.cancel) for orphan in orphans] == [("a", True)]
    view = h.get("a")
    assert (view.state, view.reason) == (State.CANCELLED, "cancelled")
    assert h.run(ops.Cancel("a")) == "finished"
    assert (h.queue().ready, h.queue().running) == (0, 0)
    assert h.status(job("b", unique="k")) == "new"


@guarantee
def a_cancelled_job_that_is_given_back_ends_cancelled(h: Harness) -> None:
    for state in (State.READY, State.SCHEDULED, State.PARKED):
        claimed = h.running(state.value)
        assert h.run(ops.Cancel(state.value)) == "requested"
        assert h.settle(claimed, state, keep_us=LEASE, reason="released")
        view = h.get(state.value)
        assert (view.state, view.reason) == (State.CANCELLED, "cancelled")
    h.running("left")
    h.run(ops.Cancel("left"))
    assert h.run(ops.Leave("w1", (QUEUE,))) == 1
    h.running("unknown")
    h.run(ops.Cancel("unknown"))
    assert h.beat(open_claim=99).released == 1
    # for as long as one that its worker cancelled
    h.clock.advance_us(ops.CANCELLED_KEEP_US - 10)
    h.run(ops.Prune())
    views = [h.get(id) for id in ("left", "unknown")]
    assert [(view.state, view.reason) for view in views] == [(State.CANCELLED, "cancelled")] * 2
    h.clock.advance_us(20)
    h.run(ops.Prune())
    assert [h.state(id) for id in ("left", "unknown")] == [None] * 2


@guarantee
def a_cancelled_job_that_finished_first_keeps_its_end(h: Harness) -> None:
    for state in (State.SUCCEEDED, State.FAILED):
        claimed = h.running(state.value)
        assert h.run(ops.Cancel(state.value)) == "requested"
        assert h.settle(claimed, state, keep_us=LEASE)
        view = h.get(state.value)
        assert (view.state, view.cancel) == (state, False)


@guarantee
def a_rescue_in_a_tight_loop_takes_nothing_from_the_living(h: Harness) -> None:
    """B043: a job is never running without a lease, not even between two steps of its claim."""
    names = [f"{n:03}" for n in range(120)]
    h.put(*names)
    h.tick_us = 0  # leases cannot run out

    def work(worker: str) -> list[str]:
        done: list[str] = []
        while jobs := h.claim(3, worker=worker).jobs:
            done += [each.id for each in jobs if h.settle(each, State.SUCCEEDED, worker=worker)]
        return done

    def sweep() -> list[str]:
        return [orphan.id for _ in range(60) for orphan in h.rescue()]

    first, second, *swept = h.parallel(lambda: work("w1"), lambda: work("w2"), sweep, sweep)
    assert swept == [[], []]
    assert sorted(first + second) == names


@guarantee
def two_rescues_at_once_count_one_crash(h: Harness) -> None:
    h.put(*(f"{n}" for n in range(10)))
    h.take(10)
    h.clock.advance_us(LEASE)
    found = h.parallel(*(h.rescue for _ in range(4)))
    assert sorted(ids(flat(found))) == [f"{n}" for n in range(10)]
    assert {trail.decode(each.trail).crashes for each in h.take(10, worker="w2")} == {1}
