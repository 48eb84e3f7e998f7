"""Guarantees to producers: what was acknowledged is there once, whole, and not before its time."""

from __future__ import annotations

from functools import partial

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import QUEUE, Harness, guarantee, ids, job, outcome

SEPARATORS = [
    "a",
    "a:b",
    "a,b",
    "a|b",
    "a}b",
    "{a}",
    "a{b}c",
    "a'b",
    'a"b',
    "a\\b",
    "a%b",
    "a_b",
    "*",
    "a?b",
    "[a]",
    "a/../b",
    "A",
    "0",
    "1e3",
    ":now",
]
ODD = (
    *SEPARATORS,
    "a b",
    "a\nb",
    "a\tb",
    "a\x1fb",
    "ä",
    "名前",
    "\U0001f9ea",
    "\u202eabc",
    "a;DROP TABLE x--",
    "x" * 200,
)


@guarantee
def an_enqueue_repeated_by_id_makes_one_job(h: Harness) -> None:
    """The reply of the first was lost; the second finds the job and says so."""
    h.put("a")
    assert h.enqueue(job("a", body=b"other")) == [ops.Enqueued("exists", "a")]
    assert ids(h.claim(5).jobs) == ["a"]
    assert h.status("a") == "exists"
    assert h.get("a").body == b"body of a"


@guarantee
def an_id_twice_in_one_enqueue_makes_one_job(h: Harness) -> None:
    assert [answer.status for answer in h.enqueue("a", "b", "a")] == ["new", "new", "exists"]
    assert ids(h.claim(5).jobs) == ["a", "b"]


@guarantee
def a_finished_random_id_is_remembered_for_60_seconds(h: Harness) -> None:
    """So long a driver may still resend an enqueue whose job has already ended."""
    for state in (State.SUCCEEDED, State.CANCELLED, State.EXPIRED):
        h.finished(state.value, state)
        h.clock.advance(59.9)
        assert h.status(state.value) == "exists"
        h.clock.advance(0.2)
        assert h.status(state.value) == "new"
        assert h.run(ops.Cancel(state.value)) == "cancelled"


@guarantee
def a_finished_derived_id_is_remembered_for_24_hours(h: Harness) -> None:
    h.finished(job("a", derived=True))
    h.clock.advance(24 * 3600 - 1)
    assert h.status(job("a", derived=True)) == "exists"
    h.clock.advance(1.1)
    assert h.status(job("a", derived=True)) == "new"


@guarantee
def a_tombstone_outlives_a_prune_until_its_time_is_over(h: Harness) -> None:
    h.finished("a")
    h.run(ops.Prune())
    assert h.status("a") == "exists"
    h.clock.advance(61)
    h.run(ops.Prune())
    assert h.status("a") == "new"


@guarantee
def a_failed_job_keeps_its_id(h: Harness) -> None:
    """It may be replayed under that id at any time, long after a tombstone's life."""
    h.finished("a", State.FAILED)
    h.clock.advance(48 * 3600)
    assert h.status("a") == "exists"
    assert h.state("a") == State.FAILED


@guarantee
def a_reused_id_starts_afresh(h: Harness) -> None:
    """B056: nothing of the earlier job is inherited but a token that only grows."""
    first = h.running("a")
    h.run(ops.Cancel("a"))
    assert h.settle(first, State.CANCELLED, trail=trail.released(None), reason="cancelled")
    h.clock.advance(61)
    h.put(job("a", priority=3, body=b"new"))
    view = h.get("a")
    assert (view.state, view.priority, view.body, view.trail, view.reason) == (State.READY, 3, b"new", None, "")
    assert (view.claimed_us, view.finished_us, view.worker, view.cancel) == (None, None, None, False)
    assert view.created_us == view.base_us == view.due_us == h.clock() - 1
    assert view.token > first.token
    assert not h.settle(first, State.SUCCEEDED)
    again = h.take(1)[0]
    assert again.token > first.token
    assert h.beat(again).cancel == []


@guarantee
def answers_stand_in_the_order_of_the_jobs(h: Harness) -> None:
    h.put("old", job("held", "q2", unique="k"))
    answers = h.enqueue(
        job("a", "q2"), "old", job("b", "q2", unique="k"), job("c", "q3", unique="k"), job("d", QUEUE), job("e", "q2")
    )
    assert answers == [
        ops.Enqueued("new", "a"),
        ops.Enqueued("exists", "old"),
        ops.Enqueued("duplicate", "held"),
        ops.Enqueued("new", "c"),
        ops.Enqueued("new", "d"),
        ops.Enqueued("new", "e"),
    ]


@guarantee
def an_empty_enqueue_is_answered(h: Harness) -> None:
    assert h.enqueue() == []


@guarantee
def any_bytes_come_back_unchanged(h: Harness) -> None:
    """B094, B101: bodies and trails are opaque: NUL, broken UTF-8, 4-byte characters, a megabyte."""
    bodies = [
        b"",
        b"\x00",
        b"a\x00b",
        b"\xff\xfe",
        "\U0001f9ea名".encode(),
        bytes(range(256)),
        b"x" * 63_000,
        b"y" * 66_000,
    ]
    bodies += [b"\x00\xff" * 500_000, b"'\";--", b"12", b"\r\n"]
    h.put(*(job(f"j{n:02}", body=body) for n, body in enumerate(bodies)))
    claimed = h.take(len(bodies))
    assert [each.body for each in claimed] == bodies
    assert all(h.settle_all(outcome(each, State.FAILED, trail=each.body, reason="\U0001f9ea ü") for each in claimed))
    for n, body in enumerate(bodies):
        view = h.get(f"j{n:02}")
        assert (view.body, view.reason) == (body, "\U0001f9ea ü")
        assert (view.trail or b"") == body


@guarantee
def odd_names_are_kept_apart(h: Harness) -> None:
    """Ids, queues, tasks and unique keys are data: no separator, pattern or quote in them means anything."""
    h.put(*(job(name, name, unique=name, task=name) for name in ODD))
    assert [view.name for view in h.run(ops.Queues())] == sorted(ODD)
    for name in ODD:
        assert h.enqueue(job(f"again {name}", name, unique=name)) == [ops.Enqueued("duplicate", name)]
        assert h.listed(State.READY, queue=name) == [name]
        assert h.listed(State.READY, task=name) == [name]
        claimed = h.take(1, queues=(name,), worker=f"worker {name}")[0]
        assert (claimed.id, claimed.queue) == (name, name)
        assert h.settle(claimed, State.FAILED, worker=f"worker {name}", reason=name)
        assert h.listed(State.FAILED, reason=name) == [name]
        assert h.run(ops.Replay((name,))).replayed == [name]
        assert h.run(ops.Cancel(name)) == "cancelled"


@guarantee
def names_that_join_to_the_same_text_are_kept_apart(h: Harness) -> None:
    h.put(
        job("1", "a", unique="b:c"),
        job("2", "a:b", unique="c"),
        job("3", "a:b:c", unique=""),
        job("4", "", unique="a:b:c"),
    )
    assert ids(h.claim(5, queues=("a:b",)).jobs) == ["2"]
    assert ids(h.claim(5, queues=("a",)).jobs) == ["1"]
    assert ids(h.claim(5, queues=("",)).jobs) == ["4"]
    assert h.enqueue(job("5", "a:b:c", unique="")) == [ops.Enqueued("duplicate", "3")]


def _through(h: Harness, count: int) -> None:
    names = [f"{count}-{n:05}" for n in range(count)]
    answers = h.enqueue(*(job(name, body=b"{}") for name in names))
    assert answers == [ops.Enqueued("new", name) for name in names]
    assert h.queue().ready == count
    claimed = h.take(count)
    assert ids(claimed) == names
    assert h.held() == count
    assert h.beat(*claimed).lost == []
    assert h.settle_all(outcome(each, State.SUCCEEDED) for each in claimed) == [True] * count
    assert h.queue().running == 0


@guarantee
def one_operation_carries_one_job(h: Harness) -> None:
    _through(h, 1)


@guarantee
def one_operation_carries_7_281_jobs(h: Harness) -> None:
    """B134: more than one statement's parameters hold."""
    _through(h, 7_281)


@guarantee
def one_operation_carries_20_000_jobs(h: Harness) -> None:
    """B134: more than one script's arguments hold."""
    _through(h, 20_000)


@guarantee
def a_delayed_job_is_never_early(h: Harness) -> None:
    h.put(job("a", delay_us=10 * MICROSECONDS))
    due = h.get("a").due_us
    assert due == h.clock() - 1 + 10 * MICROSECONDS
    h.clock.advance_us(due - h.clock() - 2)
    early = h.claim(5)
    assert (early.jobs, early.next_due_us, h.clock()) == ([], due, due - 1)
    assert ids(h.claim(5).jobs) == ["a"]


@guarantee
def a_due_time_wins_over_a_delay(h: Harness) -> None:
    due = h.clock() + 5 * MICROSECONDS
    h.put(job("a", due_us=due, delay_us=60 * MICROSECONDS), job("past", due_us=17, delay_us=60 * MICROSECONDS))
    assert h.state("a") == State.SCHEDULED
    assert h.state("past") == State.READY
    assert ids(h.claim(5).jobs) == ["past"]
    h.clock.advance(5)
    assert ids(h.claim(5).jobs) == ["a"]


@guarantee
def a_due_time_in_a_far_future_is_kept(h: Harness) -> None:
    """To the microsecond, beyond what a double holds: the last moment a datetime knows."""
    last = 253_402_300_799_999_999
    h.put(job("never", due_us=last), job("next", due_us=h.clock() + 1000))
    assert (h.get("never").due_us, h.state("never")) == (last, State.SCHEDULED)
    assert h.claim(5).next_due_us == h.get("next").due_us
    h.clock.advance(100 * 365 * 24 * 3600)
    assert ids(h.claim(5).jobs) == ["next"]


@guarantee
def a_negative_delay_is_none(h: Harness) -> None:
    h.put(job("a", delay_us=-5))
    assert h.get("a").due_us == h.clock() - 1
    assert ids(h.claim(5).jobs) == ["a"]


@guarantee
def due_jobs_count_as_ready_without_a_scheduler(h: Harness) -> None:
    h.put(job("a", delay_us=MICROSECONDS), job("b", delay_us=99 * MICROSECONDS))
    assert (h.queue().ready, h.queue().scheduled, h.queue().oldest_ready_us) == (0, 2, None)
    assert h.listed(State.SCHEDULED) == ["a", "b"]
    h.clock.advance(1)
    assert (h.queue().ready, h.queue().scheduled) == (1, 1)
    assert h.queue().oldest_ready_us == h.get("a").due_us
    assert h.state("a") == State.READY
    assert (h.listed(State.READY), h.listed(State.SCHEDULED)) == (["a"], ["b"])


@guarantee
def promote_serves_an_autoscaler_at_zero_workers(h: Harness) -> None:
    h.put(*(job(f"a{n}", delay_us=n * MICROSECONDS) for n in (3, 1, 2)), job("other", "q2", delay_us=MICROSECONDS))
    assert h.run(ops.Promote((QUEUE,))) == 0
    h.clock.advance(2)
    assert h.run(ops.Promote((QUEUE,), limit=1)) == 1
    assert h.run(ops.Promote((QUEUE,))) == 1
    assert h.run(ops.Promote((QUEUE,))) == 0
    assert ids(h.claim(5).jobs) == ["a1", "a2"]
    assert h.run(ops.Promote(("q2", QUEUE))) == 1


@guarantee
def whoever_was_answered_sees_what_he_has_done_while_others_look_too(h: Harness) -> None:
    def produce(name: str) -> None:
        for n in range(15):
            h.put(f"{name}{n}")
            assert h.get(f"{name}{n}").state is State.READY
            assert h.run(ops.Cancel(f"{name}{n}")) == "cancelled"
            assert h.state(f"{name}{n}") is None

    h.parallel(*(partial(produce, name) for name in "abcdef"))
    assert h.claim(5).jobs == []
