"""Guarantees about claims: one worker per job, in the promised order, and a lost reply loses nothing."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, flat, guarantee, ids, job


@guarantee
def two_workers_never_hold_one_lease(h: Harness) -> None:
    h.put("a")
    first = h.take(1, worker="w1")
    assert h.claim(5, worker="w2").jobs == []
    assert h.state("a") == State.RUNNING
    assert h.get("a").worker == "w1"
    assert h.settle(first[0], State.SUCCEEDED)
    assert h.claim(5, worker="w2").jobs == []


@guarantee
def workers_that_claim_at_once_share_the_jobs(h: Harness) -> None:
    names = [f"{n:03}" for n in range(200)]
    h.put(*names)

    def drain(worker: str) -> list[str]:
        taken: list[str] = []
        while jobs := h.claim(7, worker=worker).jobs:
            taken += ids(jobs)
        return taken

    taken = h.parallel(*(lambda worker=f"w{n}": drain(worker) for n in range(4)))
    assert sorted(flat(taken)) == names


@guarantee
def a_claim_hands_over_the_whole_job(h: Harness) -> None:
    h.put("a")
    claimed = h.claim(1)
    view = h.get("a")
    assert claimed.now_us == h.clock() - 1
    assert claimed.jobs == [ops.ClaimedJob("a", QUEUE, view.token, b"body of a", None, view.created_us, view.base_us)]
    assert (view.claimed_us, view.worker, view.state) == (claimed.now_us, "w1", State.RUNNING)


@guarantee
def a_repeated_claim_number_repeats_the_answer(h: Harness) -> None:
    """The reply was lost: asking again brings the same jobs and takes no others."""
    h.put("a", "b", "c", "d")
    first = h.claim(2, number=7)
    again = h.claim(2, number=7)
    assert again.jobs == first.jobs
    assert again.more
    assert h.held() == 2


@guarantee
def a_repeated_claim_brings_only_what_is_still_held(h: Harness) -> None:
    h.put("a", "b", "c")
    first = h.claim(2, number=1)
    assert h.settle(first.jobs[0], State.SUCCEEDED)
    assert ids(h.claim(2, number=1).jobs) == ["b"]
    assert ids(h.claim(1, number=2).jobs) == ["c"]
    assert ids(h.claim(1, number=2).jobs) == ["c"]  # and not what an earlier claim brought


@guarantee
def a_repeated_claim_that_found_nothing_takes_nothing(h: Harness) -> None:
    assert h.claim(2, number=1).jobs == []
    h.put("a")
    assert h.claim(2, number=1).jobs == []
    assert ids(h.claim(2, number=2).jobs) == ["a"]


@guarantee
def an_older_claim_number_brings_nothing(h: Harness) -> None:
    """A resend that was overtaken by the worker's next claim."""
    h.put("a", "b", "c")
    h.claim(1, number=1)
    h.claim(1, number=2)
    assert h.claim(1, number=1).jobs == []
    assert h.queue().ready == 1


@guarantee
def a_repeated_claim_finds_its_jobs_in_all_queues(h: Harness) -> None:
    h.put(job("a", "q1"), job("b", "q2", priority=5), job("c", "q2"), job("d", "q1", priority=5))
    first = h.claim(4, queues=("q1", "q2"), number=1)
    assert ids(first.jobs) == ["d", "a", "b", "c"]
    again = h.claim(4, queues=("q1", "q2"), number=1)
    assert sorted(ids(again.jobs)) == ["a", "b", "c", "d"]


@guarantee
def higher_priority_goes_first_and_equal_ones_in_order(h: Harness) -> None:
    priorities = [0, -100, 100, 5, 0, -1, 100, -100, 99, 1, 0]
    h.put(*(job(f"{n:02}", priority=priority) for n, priority in enumerate(priorities)))
    expected = [f"{n:02}" for n in sorted(range(len(priorities)), key=lambda n: (-priorities[n], n))]
    assert h.listed(State.READY, queue=QUEUE) == expected
    assert ids(h.claim(4).jobs) + ids(h.claim(50).jobs) == expected


@guarantee
def jobs_of_one_priority_run_in_the_order_they_came(h: Harness) -> None:
    """Whatever their ids, within one enqueue and over several."""
    h.put("z", "m", "a")
    h.put("y")
    h.put("b", "x")
    assert ids(h.claim(10).jobs) == ["z", "m", "a", "y", "b", "x"]


@guarantee
def queue_order_beats_priority(h: Harness) -> None:
    h.put(
        job("low", "q2", priority=100), job("b", "q1", priority=-100), job("a", "q1"), job("other", "q3", priority=100)
    )
    assert ids(h.claim(10, queues=("q1", "q2")).jobs) == ["a", "b", "low"]


@guarantee
def a_claim_takes_from_its_queues_only(h: Harness) -> None:
    h.put(job("a", "q1"), job("b", "q2"))
    claimed = h.claim(10, queues=("q2", "never seen"))
    assert ids(claimed.jobs) == ["b"]
    assert not claimed.more
    assert h.state("a") == State.READY


@guarantee
def a_claim_is_bounded_over_all_its_queues(h: Harness) -> None:
    h.put(*(job(f"{queue}{n}", queue) for queue in ("q1", "q2", "q3") for n in range(3)))
    first = h.claim(4, queues=("q1", "q2", "q3"))
    assert ids(first.jobs) == ["q10", "q11", "q12", "q20"]
    assert first.more
    second = h.claim(5, queues=("q1", "q2", "q3"))
    assert ids(second.jobs) == ["q21", "q22", "q30", "q31", "q32"]
    assert not second.more


@guarantee
def more_says_whether_ready_jobs_are_left(h: Harness) -> None:
    h.put("a", "b", job("later", delay_us=MICROSECONDS), job("elsewhere", "q2"))
    assert h.claim(1).more
    assert not h.claim(1).more
    assert not h.claim(1).more


@guarantee
def a_claim_of_none_looks_only(h: Harness) -> None:
    h.put("a")
    looked = h.claim(0)
    assert (looked.jobs, looked.more) == ([], True)


@guarantee
def a_claim_tells_the_next_due_time_of_its_queues(h: Harness) -> None:
    h.put(
        job("c", delay_us=30 * MICROSECONDS),
        job("b", "q2", delay_us=20 * MICROSECONDS),
        job("a", "q3", delay_us=MICROSECONDS),
    )
    due = {id: h.get(id).due_us for id in "abc"}
    assert h.claim(1).next_due_us == due["c"]
    assert h.claim(1, queues=(QUEUE, "q2")).next_due_us == due["b"]
    h.clock.advance(20)
    claimed = h.claim(5, queues=(QUEUE, "q2"))
    assert (ids(claimed.jobs), claimed.next_due_us) == (["b"], due["c"])
    h.clock.advance(10)
    assert h.claim(5).next_due_us is None


@guarantee
def due_jobs_run_in_the_order_of_their_due_times(h: Harness) -> None:
    """Whatever their ids and the order they came in."""
    later = ((3, "a"), (1, "c"), (2, "b"))
    h.put(*(job(id, delay_us=seconds * MICROSECONDS) for seconds, id in later))
    h.put(job("high", delay_us=3 * MICROSECONDS, priority=1))
    h.clock.advance(10)
    assert ids(h.claim(10).jobs) == ["high", "c", "b", "a"]


@guarantee
def a_due_job_is_not_overtaken_by_later_ones(h: Harness) -> None:
    """It became ready before they came, whether or not anybody had looked."""
    h.put(job("due", delay_us=MICROSECONDS))
    h.clock.advance(2)
    h.put("later")
    assert ids(h.claim(10).jobs) == ["due", "later"]


@guarantee
def thousands_of_due_jobs_become_ready_in_one_claim(h: Harness) -> None:
    names = [f"{n:04}" for n in range(2_500)]
    h.put(*(job(name, delay_us=MICROSECONDS) for name in names))
    h.clock.advance(2)
    assert h.queue().ready == 2_500
    taken = ids(h.claim(1_000).jobs) + ids(h.claim(1_000).jobs) + ids(h.claim(1_000).jobs)
    assert taken == names


@guarantee
def a_claim_registers_its_worker(h: Harness) -> None:
    h.claim(1, queues=(QUEUE,))
    rows = [view for view in h.run(ops.Workers()) if view.worker == "w1"]
    assert rows
    assert {view.lease_until_us for view in rows} == {h.clock() - 1 + LEASE}
    assert h.held() == 0


@guarantee
def a_claim_extends_the_lease_of_what_is_held(h: Harness) -> None:
    claimed = h.running("a")
    h.clock.advance_us(LEASE - 10)
    h.claim(1)
    h.clock.advance(1)
    assert h.rescue() == []
    assert h.settle(claimed, State.SUCCEEDED)
