"""Guarantees to operators: what they see is what is there, and what they cancel is what they named."""

from __future__ import annotations

from typing import Any

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, flat, guarantee, ids, job


@guarantee
def prepare_may_be_repeated(h: Harness) -> None:
    h.run(ops.Prepare())
    h.put("a")
    h.run(ops.Prepare())
    assert h.state("a") == State.READY


@guarantee
def inspect_tells_what_the_store_promises(h: Harness) -> None:
    findings = h.run(ops.Inspect())
    assert findings
    assert {finding.level for finding in findings} <= {"ok", "info", "warning", "error"}
    assert all(finding.fix for finding in findings if finding.level in ("warning", "error"))


@guarantee
def a_waiting_job_is_cancelled_at_once(h: Harness) -> None:
    h.put("a", job("b", delay_us=MICROSECONDS), job("c", "q2"))
    assert h.run(ops.Cancel("a")) == "cancelled"
    assert h.run(ops.Cancel("b", QUEUE)) == "cancelled"
    assert h.run(ops.Cancel("c", keep_us=LEASE)) == "cancelled"
    h.clock.advance(2)
    assert h.claim(5, queues=(QUEUE, "q2")).jobs == []
    assert (h.state("a"), h.state("b")) == (None, None)
    view = h.get("c")
    assert (view.state, view.reason) == (State.CANCELLED, "cancelled")
    assert [h.run(ops.Cancel(id)) for id in "abc"] == ["finished"] * 3


@guarantee
def a_running_job_is_asked_to_stop(h: Harness) -> None:
    claimed = h.running("a")
    assert h.run(ops.Cancel("a")) == "requested"
    assert h.run(ops.Cancel("a")) == "requested"
    view = h.get("a")
    assert (view.state, view.cancel, view.token) == (State.RUNNING, True, claimed.token)
    assert h.settle(claimed, State.CANCELLED, reason="cancelled")
    assert h.run(ops.Cancel("a")) == "finished"


@guarantee
def a_cancel_of_nothing_is_not_remembered(h: Harness) -> None:
    """B055: a job that comes later under that id runs."""
    assert h.run(ops.Cancel("x")) == "absent"
    claimed = h.running("x")
    assert h.beat(claimed).cancel == []
    assert h.get("x").cancel is False
    assert h.settle(claimed, State.SUCCEEDED)


@guarantee
def a_cancel_of_a_finished_job_says_so(h: Harness) -> None:
    for state in (State.SUCCEEDED, State.FAILED, State.EXPIRED):
        h.finished(state.value, state)
        assert h.run(ops.Cancel(state.value)) == "finished"
    assert h.state("failed") == State.FAILED
    h.clock.advance(61)
    h.run(ops.Prune())
    assert h.run(ops.Cancel("succeeded")) == "absent"


@guarantee
def a_wrong_queue_is_only_a_wrong_hint(h: Harness) -> None:
    h.put(job("a", "q1"), job("b", "q1"))
    assert h.run(ops.Get("a", "q1")) == h.run(ops.Get("a"))
    assert h.run(ops.Cancel("a", "q1")) == "cancelled"
    assert h.run(ops.Cancel("b")) == "cancelled"


@guarantee
def get_shows_one_job_whole(h: Harness) -> None:
    assert h.run(ops.Get("a")) is None
    h.put(job("a", "q2", task="mail", priority=-3, unique="k", body=b"\x00", delay_us=5))
    now = h.clock()
    view = h.run(ops.Get("a"))
    assert view == ops.JobView(
        "a", "q2", "mail", State.SCHEDULED, -3, now, now, now + 5, now, unique="k", body=b"\x00"
    )  # the get came one microsecond later, which is before the due time


@guarantee
def listings_leave_out_bodies_unless_asked(h: Harness) -> None:
    """B101: a page of large jobs is small."""
    h.put(*(job(f"{n}", body=b"x" * 100_000) for n in range(5)))
    page = h.run(ops.List(State.READY))
    assert [view.body for view in page.jobs] == [None] * 5
    assert page.next is None
    assert {len(view.body or b"") for view in h.run(ops.List(State.READY, bodies=True)).jobs} == {100_000}


@guarantee
def listings_keep_to_their_filters(h: Harness) -> None:
    for n, (queue, task, reason) in enumerate(
        (queue, task, reason) for queue in ("q1", "q2") for task in ("t1", "t2") for reason in ("r1", "r2")
    ):
        h.finished(job(f"{n}", queue, task=task), State.FAILED, reason=reason)
    h.put(job("ready", "q1", task="t1"))
    assert h.listed(State.FAILED) == ["7", "6", "5", "4", "3", "2", "1", "0"]
    assert h.listed(State.FAILED, queue="q1") == ["3", "2", "1", "0"]
    assert h.listed(State.FAILED, task="t1") == ["5", "4", "1", "0"]
    assert h.listed(State.FAILED, reason="r2") == ["7", "5", "3", "1"]
    assert h.listed(State.FAILED, queue="q2", task="t2", reason="r1") == ["6"]
    assert h.listed(State.FAILED, queue="none") == []
    assert h.listed(State.READY, task="t1") == ["ready"]


def _pages(h: Harness, limit: int, **options: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = None
    while True:
        page = h.run(ops.List(limit=limit, cursor=cursor, **options))
        pages.append(ids(page.jobs))
        cursor = page.next
        if cursor is None:
            return pages
        assert len(pages) < 100, "the pages do not end"


@guarantee
def pages_cover_every_job_once(h: Harness) -> None:
    """In one queue and over all, for each state, filters included."""
    names = [f"{n:02}" for n in range(23)]
    for n, name in enumerate(names):
        h.finished(job(name, f"q{n % 3}", task=f"t{n % 2}"), State.FAILED)
    assert flat(_pages(h, 5, state=State.FAILED)) == names[::-1]
    assert flat(_pages(h, 3, state=State.FAILED, queue="q1")) == [n for n in names[::-1] if int(n) % 3 == 1]
    assert flat(_pages(h, 4, state=State.FAILED, task="t1")) == [n for n in names[::-1] if int(n) % 2 == 1]
    h.run(ops.Replay(tuple(names)))
    assert sorted(flat(_pages(h, 5, state=State.READY))) == names
    assert flat(_pages(h, 2, state=State.READY, queue="q2")) == [n for n in names if int(n) % 3 == 2]
    assert sorted(flat(_pages(h, 4, state=State.READY, task="t0"))) == [n for n in names if int(n) % 2 == 0]
    h.claim(20, queues=("q0", "q1", "q2"))
    assert len(flat(_pages(h, 6, state=State.RUNNING))) == 20
    assert len(set(flat(_pages(h, 7, state=State.RUNNING)))) == 20


@guarantee
def pages_are_no_longer_than_asked(h: Harness) -> None:
    h.put(*(f"{n}" for n in range(10)))
    assert [len(page) for page in _pages(h, 4, state=State.READY, queue=QUEUE)][:2] == [4, 4]
    assert flat(_pages(h, 4, state=State.READY, queue=QUEUE)) == [f"{n}" for n in range(10)]


@guarantee
def queues_are_counted_by_state(h: Harness) -> None:
    h.put(*(job(f"r{n}", "b") for n in range(3)), job("s", "b", delay_us=LEASE), job("x", "a"))
    claimed = h.take(2, queues=("b",))
    assert h.settle(claimed[0], State.FAILED)
    h.finished(job("done", "c"))
    view = h.queue("b")
    assert (view.ready, view.scheduled, view.running, view.parked, view.failed) == (1, 1, 1, 0, 1)
    assert [each.name for each in h.run(ops.Queues())] == ["a", "b", "c"]
    assert h.queue("c") == ops.QueueView("c", 0, 0, 0, 0, 0, None, None)
    assert h.settle(claimed[1], State.PARKED)
    assert (h.queue("b").running, h.queue("b").parked) == (0, 1)


@guarantee
def queues_tell_their_oldest_jobs(h: Harness) -> None:
    h.put(job("a", "q1"))
    first = h.clock()
    h.clock.advance(1)
    h.put(job("b", "q1", priority=5))
    second = h.clock()
    h.clock.advance(1)
    assert (h.queue("q1").oldest_ready_us, h.queue("q1").oldest_running_us) == (first, None)
    h.take(1, queues=("q1",))
    claimed = h.clock()
    assert (h.queue("q1").oldest_ready_us, h.queue("q1").oldest_running_us) == (first, claimed)
    h.clock.advance(1)
    h.take(1, queues=("q1",))
    assert (h.queue("q1").oldest_ready_us, h.queue("q1").oldest_running_us) == (None, claimed)
    assert second < claimed


@guarantee
def an_empty_store_has_nothing_to_show(h: Harness) -> None:
    assert h.run(ops.Queues()) == []
    assert h.run(ops.Workers()) == []
    assert h.run(ops.List(State.READY)) == ops.Page([], None)
    assert h.claim(5) == ops.Claimed(h.clock(), [], more=False, next_due_us=None)
    assert h.rescue() == []
    assert h.run(ops.Promote((QUEUE,))) == 0
    assert h.run(ops.Forget(("a",))) == 0
    assert h.prune(age_us=0, most=0) == 0


@guarantee
def workers_are_listed_with_what_they_hold(h: Harness) -> None:
    h.put("a", "b", "c")
    h.take(2, worker="w1")
    h.take(1, worker="w2")
    h.claim(1, worker="w3")
    assert sorted({view.worker for view in h.run(ops.Workers())}) == ["w1", "w2", "w3"]
    assert [h.held(worker) for worker in ("w1", "w2", "w3")] == [2, 1, 0]
