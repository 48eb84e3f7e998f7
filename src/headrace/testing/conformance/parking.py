"""Guarantees of parked jobs: claims pass them by, and they come back in their old places, as many as are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import QUEUE, Harness, guarantee, ids, job, outcome

SMTP, BANK = "circuit smtp", "circuit bank"


def park(h: Harness, *names: str, reason: str = SMTP, queue: str = QUEUE, **options: Any) -> None:
    """Jobs that are enqueued, claimed and parked."""
    h.put(*(job(name, queue, **options) for name in names))
    claimed = h.take(len(names), queues=(queue,), worker="parker")
    settled = h.settle_all([outcome(each, State.PARKED, reason=reason) for each in claimed], worker="parker")
    assert settled == [True] * len(names)


def unpark(h: Harness, limit: int, reason: str = SMTP, queues: Iterable[str] = (QUEUE,)) -> int:
    """How many there were."""
    return h.run(Unpark(tuple(queues), reason, limit))


@guarantee
def a_parked_job_is_not_claimed(h: Harness) -> None:
    park(h, "a", "b")
    h.put("c")
    h.clock.advance(3600)
    assert ids(h.claim(5).jobs) == ["c"]
    assert (h.queue().parked, h.queue().ready) == (2, 0)
    view = h.get("a")
    assert (view.state, view.reason, view.worker) == (State.PARKED, SMTP, None)
    assert h.listed(State.PARKED) == ["a", "b"]
    assert h.listed(State.PARKED, reason=BANK) == []


@guarantee
def parked_jobs_come_back_in_their_old_places(h: Harness) -> None:
    park(h, "a", "b", "c")
    park(h, "urgent", priority=5)
    h.put("later", job("middle", priority=3))
    assert unpark(h, 3) == 3
    assert ids(h.take(5)) == ["urgent", "middle", "a", "b", "later"]
    assert h.listed(State.PARKED) == ["c"]
    assert unpark(h, 3) == 1
    assert unpark(h, 3) == 0
    assert ids(h.take(1)) == ["c"]


@guarantee
def a_job_that_comes_back_runs_under_a_new_token(h: Harness) -> None:
    claimed = h.running("a")
    memory = trail.encode(trail.Trail(attempts=2))
    assert h.settle(claimed, State.PARKED, reason=SMTP, trail=memory)
    assert not h.settle(claimed, State.SUCCEEDED)
    assert unpark(h, 1) == 1
    (again,) = h.take(1)
    assert again.token > claimed.token
    assert again.trail == memory
    assert h.settle(again, State.SUCCEEDED)


@guarantee
def only_jobs_of_that_reason_come_back(h: Harness) -> None:
    park(h, "a1", "a2")
    park(h, "b1", reason=BANK)
    park(h, "c1", reason=SMTP + "2")
    park(h, "d1", reason="")
    assert unpark(h, 9, BANK) == 1
    assert h.listed(State.READY) == ["b1"]
    assert unpark(h, 9, "circuit") == 0
    assert unpark(h, 9) == 2
    assert unpark(h, 9, "") == 1
    assert h.listed(State.READY) == ["a1", "a2", "b1", "d1"]


@guarantee
def jobs_come_back_queue_by_queue(h: Harness) -> None:
    park(h, "a1", "a2", queue="q1")
    park(h, "b1", "b2", queue="q2")
    park(h, "c1", queue="q3")
    assert unpark(h, 3, queues=("q2", "q1", "nowhere")) == 3
    assert (h.queue("q1").parked, h.queue("q2").parked, h.queue("q3").parked) == (1, 0, 1)
    assert unpark(h, 3, queues=("q1", "q1")) == 1
    assert unpark(h, 3, queues=()) == 0
    assert unpark(h, 0, queues=("q3",)) == 0


@guarantee
def one_sees_why_jobs_are_parked(h: Harness) -> None:
    def reasons(*queues: str) -> list[ParkedFor]:
        return h.run(LookParked(queues))

    assert reasons("q1", "q2") == []
    park(h, "a1", "a2", queue="q1")
    park(h, "a3", queue="q1", reason=BANK)
    park(h, "b1", queue="q2", reason="\u00e9t\u00e9 " + "x" * 190)
    park(h, "c1", queue="q3")
    seen = [ParkedFor("q1", BANK), ParkedFor("q1", SMTP), ParkedFor("q2", "\u00e9t\u00e9 " + "x" * 190)]
    assert reasons("q2", "q1") == seen
    assert reasons("q2") == seen[2:]
    assert reasons() == []
    assert unpark(h, 1, BANK, ("q1",)) == 1
    assert unpark(h, 1, SMTP, ("q1",)) == 1
    assert reasons("q1") == [ParkedFor("q1", SMTP)]
    assert h.run(ops.Cancel("a2")) == "cancelled"
    assert reasons("q1") == []


@guarantee
def one_sees_how_many_jobs_are_parked_for_each_reason(h: Harness) -> None:
    def counts(*queues: str) -> list[ParkedFor]:
        found = h.run(LookParked(queues, counting=True))
        assert h.run(LookParked(queues)) == [ParkedFor(one.queue, one.reason) for one in found]
        return found

    assert counts("q1", "q2") == []
    park(h, *(f"a{number}" for number in range(700)), queue="q1")
    park(h, *(f"b{number}" for number in range(301)), queue="q1", priority=1)
    park(h, "c1", "c2", queue="q1", reason=BANK)
    park(h, "d1", queue="q2")
    park(h, "d2", "d3", queue="q2", reason="")
    park(h, "e1", queue="q3")
    q2 = [ParkedFor("q2", "", 2), ParkedFor("q2", SMTP, 1)]
    assert counts("q2", "q1", "q2", "nowhere") == [ParkedFor("q1", BANK, 2), ParkedFor("q1", SMTP, 1001), *q2]
    assert counts("q2") == q2
    assert unpark(h, 303, queues=("q1",)) == 303
    assert h.run(ops.Cancel("a2")) == "cancelled"
    back = h.take(2, queues=("q1",))
    assert h.settle_all(outcome(each, State.PARKED, reason=BANK) for each in back) == [True, True]
    assert counts("q1", "q2") == [ParkedFor("q1", BANK, 4), ParkedFor("q1", SMTP, 697), *q2]
    assert unpark(h, 4, BANK, ("q1",)) == 4
    assert counts("q1") == [ParkedFor("q1", SMTP, 697)]


@guarantee
def a_parked_job_can_be_cancelled(h: Harness) -> None:
    park(h, "a", "b")
    assert h.run(ops.Cancel("a")) == "cancelled"
    assert unpark(h, 9) == 1
    assert ids(h.claim(5).jobs) == ["b"]
    assert h.state("a") is None


@guarantee
def a_job_may_be_parked_again_for_something_else(h: Harness) -> None:
    park(h, "a", "b")
    assert unpark(h, 1) == 1
    (claimed,) = h.take(1)
    assert h.settle(claimed, State.PARKED, reason=BANK)
    assert h.run(LookParked((QUEUE,))) == [ParkedFor(QUEUE, BANK), ParkedFor(QUEUE, SMTP)]
    assert unpark(h, 9) == 1
    assert h.listed(State.PARKED) == ["a"]
    assert unpark(h, 9, BANK) == 1
    assert ids(h.take(2)) == ["a", "b"]


@guarantee
def each_of_those_that_are_parked_together_has_its_own_answer(h: Harness) -> None:
    h.put(*"abcdef")
    a, b, c, d, e, f = h.take(6)
    assert h.run(ops.Cancel("c")) == "requested"
    assert h.settle(e, State.SUCCEEDED)
    memory = trail.encode(trail.Trail(attempts=1))
    answers = h.settle_all(
        [
            *(outcome(each, State.PARKED, reason=SMTP) for each in (a, b, c)),
            outcome(b, State.PARKED, reason=BANK),
            outcome(d, State.PARKED, reason=BANK),
            outcome(e, State.PARKED, reason=SMTP),
            outcome(f, State.PARKED, reason=SMTP, trail=memory),
        ]
    )
    assert answers == [True, True, True, False, True, False, True]
    assert h.listed(State.PARKED, reason=SMTP) == ["a", "b", "f"]
    assert h.listed(State.PARKED, reason=BANK) == ["d"]
    assert (h.state("c"), h.state("e")) == (None, None)
    assert unpark(h, 9) == 3
    assert [each.trail for each in h.take(3)] == [None, None, memory]


@guarantee
def a_parked_job_keeps_its_unique_key(h: Harness) -> None:
    park(h, "a", unique="k")
    assert h.status(job("b", unique="k")) == "duplicate"
    assert unpark(h, 1) == 1
    (claimed,) = h.take(1)
    assert h.settle(claimed, State.SUCCEEDED)
    assert h.status(job("c", unique="k")) == "new"


@guarantee
def two_who_unpark_at_once_give_back_each_job_once(h: Harness) -> None:
    names = [f"j{number:02}" for number in range(40)]
    park(h, *names)
    given = h.parallel(*[lambda: unpark(h, 15)] * 4)
    assert sum(given) == 40
    h.clock.advance_us(MICROSECONDS)
    assert ids(h.take(40)) == names
    assert h.claim(1).jobs == []
