"""Guarantees about jobs that are enqueued with the end of another one, in the same step."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, guarantee, job
from headrace.testing.conformance.once import claim_of, end_of, mine


@guarantee
def jobs_that_follow_are_enqueued_with_the_end_of_their_job(h: Harness) -> None:
    a = h.running("a")
    follow = (job("then", priority=5), job("later", delay_us=LEASE))
    assert h.settle(a, State.SUCCEEDED, then=follow)
    assert (h.state("a"), h.state("then"), h.state("later")) == (None, State.READY, State.SCHEDULED)
    view = h.get("then")
    assert (view.queue, view.task, view.priority, view.body) == (QUEUE, "task", 5, b"body of then")
    b = h.take()[0]
    assert b.id == "then"
    assert h.settle(b, State.FAILED, reason="Broken", then=(job("after a failure"),))
    assert h.state("after a failure") == State.READY


@guarantee
def a_stale_settle_enqueues_no_jobs_that_follow(h: Harness) -> None:
    a = h.running("a")
    h.crash()
    assert not h.settle(a, State.SUCCEEDED, then=(job("then"),))
    assert h.state("then") is None
    again = h.take(worker="w2")[0]
    fence = mine(h, claim_of(again))
    assert not h.settle(again, State.SUCCEEDED, worker="w2", once=end_of(fence + 1), then=(job("then"),))
    assert h.state("then") is None
    assert h.settle(again, State.SUCCEEDED, worker="w2", once=end_of(fence), then=(job("then"),))
    assert h.state("then") == State.READY


@guarantee
def a_job_that_follows_and_exists_already_is_not_enqueued_again(h: Harness) -> None:
    """Nor does it keep its predecessor from ending; so it is with a unique key that is held."""
    h.put(job("then", unique="u"))
    a = h.running(job("a", queue="other"))
    then = (job("then", queue="other"), job("new", queue="other"))
    assert h.settle(a, State.SUCCEEDED, then=then)
    b = h.take(queues=("other",), limit=1)[0]
    assert b.id in ("then", "new")
    c = h.take(queues=(QUEUE,))[0]
    assert c.id == "then"
    h.put(job("holder", unique="v"))
    assert h.settle(c, State.SUCCEEDED, then=(job("duplicate", unique="v"), job("not", unique="w")))
    assert h.state("duplicate") is None
    assert h.state("not") == State.READY


@guarantee
def many_jobs_that_end_together_are_followed_each_by_its_own(h: Harness) -> None:
    h.put(*(f"j{n}" for n in range(20)))
    jobs = h.take(20)
    outcomes = [
        ops.Outcome(
            each.id,
            each.queue,
            each.token - (n == 3),
            State.SUCCEEDED,
            then=() if n % 2 else (job(f"then {each.id}", unique=f"u{n // 4}"),),
        )
        for n, each in enumerate(jobs)
    ]
    assert h.settle_all(outcomes).count(False) == 1
    followers = [id for id in h.listed(State.READY) if id.startswith("then")]
    assert followers == ["then j0", "then j4", "then j8", "then j12", "then j16"]
