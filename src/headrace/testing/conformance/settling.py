"""Guarantees about settles: the holder of the token changes the state once, nobody else changes anything."""

from __future__ import annotations

from itertools import pairwise

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import TERMINAL, TRANSITIONS, Event, State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import QUEUE, Harness, guarantee, ids, job, outcome

SETTLED = {
    Event.SUCCEED: State.SUCCEEDED,
    Event.RETRY: State.SCHEDULED,
    Event.SNOOZE: State.SCHEDULED,
    Event.DEFER: State.SCHEDULED,
    Event.RELEASE: State.READY,
    Event.PARK: State.PARKED,
    Event.FAIL: State.FAILED,
    Event.CANCEL: State.CANCELLED,
    Event.EXPIRE: State.EXPIRED,
}


@guarantee
def every_legal_end_of_a_claim_is_reached(h: Harness) -> None:
    for event, state in SETTLED.items():
        assert TRANSITIONS[State.RUNNING, event] == state
        claimed = h.running(event.value)
        assert h.settle(claimed, state, keep_us=MICROSECONDS, delay_us=60 * MICROSECONDS)
        assert h.state(event.value) == state
        if state not in TERMINAL:
            assert h.run(ops.Cancel(event.value)) == "cancelled"


@guarantee
def a_settle_of_a_job_that_is_not_running_is_refused(h: Harness) -> None:
    """Whatever the state, and even with its current token: only a claim gives the right to end it."""
    h.put(job("scheduled", delay_us=60 * MICROSECONDS))
    for state in (State.READY, State.PARKED, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED):
        assert h.settle(h.running(state.value), state, keep_us=60 * MICROSECONDS)
        if state == State.READY:
            h.run(ops.Cancel(state.value))
    h.put(job("waiting"))
    for id in ("scheduled", "waiting", "parked", "succeeded", "failed", "cancelled", "expired"):
        before = h.get(id)
        for state in State:
            if state != State.RUNNING:
                assert h.settle_all([ops.Outcome(id, QUEUE, before.token, state, trail=b"{}")]) == [False]
        assert h.get(id) == before


@guarantee
def a_settle_back_to_running_is_refused(h: Harness) -> None:
    """No such transition exists; the claim stays as it was."""
    claimed = h.running("a")
    before = h.get("a")
    try:
        h.settle(claimed, State.RUNNING)
    except ValueError:
        assert h.get("a") == before
    else:
        raise AssertionError("a claim ended in running")
    assert h.settle(claimed, State.SUCCEEDED)


@guarantee
def a_stale_settle_changes_nothing_and_says_so(h: Harness) -> None:
    old = h.running("a")
    assert h.settle(old, State.READY)
    new = h.take(1, worker="w2")[0]
    before = h.get("a")
    for state in (State.SUCCEEDED, State.FAILED, State.SCHEDULED, State.READY, State.PARKED):
        assert not h.settle(old, state, trail=b"{}", reason="late")
    assert h.get("a") == before
    assert h.settle(new, State.SUCCEEDED, worker="w2")


@guarantee
def a_settle_of_an_unknown_job_says_so(h: Harness) -> None:
    assert h.settle_all([ops.Outcome("nobody", QUEUE, 1, State.SUCCEEDED)]) == [False]
    assert h.settle_all([ops.Outcome("nobody", "no queue", 1, State.READY)]) == [False]
    assert h.state("nobody") is None
    assert h.settle_all([]) == []


@guarantee
def a_settle_counts_once(h: Harness) -> None:
    """A resend after a lost reply is answered False, and the job has moved once."""
    claimed = h.running("a")
    assert h.settle(claimed, State.SCHEDULED, delay_us=MICROSECONDS)
    before = h.get("a")
    assert not h.settle(claimed, State.SCHEDULED, delay_us=MICROSECONDS)
    assert h.get("a") == before
    twice = h.running("b")
    assert h.settle_all([outcome(twice, State.SUCCEEDED), outcome(twice, State.FAILED)]) == [True, False]
    assert h.state("b") is None


@guarantee
def one_settle_carries_mixed_outcomes_and_stale_ones(h: Harness) -> None:
    h.put(*(job(f"{n}", QUEUE if n % 2 else "q2") for n in range(8)))
    claimed = sorted(h.take(8, queues=(QUEUE, "q2")), key=lambda each: each.id)
    assert h.settle(claimed[2], State.READY)
    states = [
        State.SUCCEEDED,
        State.FAILED,
        State.SUCCEEDED,
        State.SCHEDULED,
        State.READY,
        State.CANCELLED,
        State.EXPIRED,
    ]
    outcomes = [outcome(each, state, delay_us=MICROSECONDS) for each, state in zip(claimed, states, strict=False)]
    outcomes.append(ops.Outcome("7", QUEUE, claimed[7].token + 1, State.SUCCEEDED))
    outcomes.append(ops.Outcome("unknown", QUEUE, 5, State.SUCCEEDED))
    assert h.settle_all(outcomes) == [True, True, False, True, True, True, True, False, False]
    found = [h.state(f"{n}") for n in range(8)]
    assert found == [None, State.FAILED, State.READY, State.SCHEDULED, State.READY, None, None, State.RUNNING]


@guarantee
def tokens_only_grow(h: Harness) -> None:
    """Over every way back out of running, also when no time passes and when the clock is set back."""
    h.put("a")
    tokens = [h.get("a").token]
    h.tick_us = 0
    for step in range(6):
        claimed = h.take(1)[0]
        assert claimed.token == tokens[-1]
        if step == 3:
            h.clock.jump(-3600)
        assert h.settle(claimed, (State.READY, State.SCHEDULED, State.FAILED)[step % 3])
        if step % 3 == 2:
            assert h.run(ops.Replay(("a",))).replayed == ["a"]
        tokens.append(h.get("a").token)
    assert all(before < after for before, after in pairwise(tokens)), tokens
    h.crash()
    assert h.settle(h.take(1)[0], State.SUCCEEDED)


@guarantee
def a_reused_id_never_gets_an_old_token(h: Harness) -> None:
    """Neither when the clock was set back after the job ended, nor when it was forgotten by hand."""
    first = h.finished("a")
    h.clock.advance(61)
    h.put("a")
    second = h.take(1)[0]
    assert second.token > first.token
    assert h.settle(second, State.FAILED)
    assert h.run(ops.Forget(("a",))) == 1
    h.put("a")
    third = h.take(1)[0]
    assert third.token > second.token
    assert h.settle_all(outcome(each, State.SUCCEEDED) for each in (first, second, third)) == [False, False, True]


@guarantee
def a_retry_waits_its_delay_and_keeps_its_trail(h: Harness) -> None:
    memory = trail.encode(trail.Trail(attempts=1, errors=1))
    claimed = h.running("a")
    assert h.settle(claimed, State.SCHEDULED, delay_us=8 * MICROSECONDS, trail=memory, reason="ValueError")
    view = h.get("a")
    assert (view.state, view.reason, view.trail) == (State.SCHEDULED, "ValueError", memory)
    assert view.due_us == h.clock() - 1 + 8 * MICROSECONDS
    assert (view.worker, view.claimed_us) == (None, None)
    h.clock.advance(7.9)
    assert h.claim(1).jobs == []
    h.clock.advance(0.2)
    again = h.take(1)[0]
    assert (again.trail, again.body, again.created_us) == (memory, claimed.body, claimed.created_us)
    assert h.settle(again, State.READY)
    assert h.get("a").trail == memory


@guarantee
def a_released_job_goes_back_to_the_head(h: Harness) -> None:
    h.put("a", "b", "c")
    due = h.get("b").due_us
    first = h.take(2)
    h.put("d")
    assert h.settle(first[1], State.READY)
    assert h.get("b").due_us == due
    assert h.settle(first[0], State.READY)
    assert ids(h.claim(10).jobs) == ["a", "b", "c", "d"]


@guarantee
def a_succeeded_job_is_gone_unless_kept(h: Harness) -> None:
    for state in (State.SUCCEEDED, State.CANCELLED, State.EXPIRED):
        h.finished(f"gone {state}", state)
        assert h.state(f"gone {state}") is None
        h.finished(f"kept {state}", state, keep_us=60 * MICROSECONDS, reason="why")
        view = h.get(f"kept {state}")
        assert (view.state, view.reason, view.body) == (state, "why", f"body of kept {state}".encode())
        assert (view.finished_us, view.claimed_us, view.worker) == (h.clock() - 1, None, None)
        assert h.listed(state) == [f"kept {state}"]


@guarantee
def a_failed_job_is_always_kept(h: Harness) -> None:
    memory = trail.encode(trail.Trail(attempts=3, errors=3))
    h.finished("a", State.FAILED, reason="ValueError", trail=memory)
    h.clock.advance(400 * 24 * 3600)
    h.run(ops.Prune())
    view = h.get("a")
    assert (view.state, view.reason, view.trail, view.body) == (State.FAILED, "ValueError", memory, b"body of a")
    assert h.claim(5).jobs == []


@guarantee
def a_parked_job_waits_outside_the_queue(h: Harness) -> None:
    h.put("a", "b")
    assert h.settle(h.take(1)[0], State.PARKED)
    assert (h.queue().parked, h.queue().ready) == (1, 1)
    h.clock.advance(3600)
    assert ids(h.claim(5).jobs) == ["b"]
    assert h.listed(State.PARKED) == ["a"]


@guarantee
def one_of_many_settles_wins(h: Harness) -> None:
    """Resends that arrive at once change the state once."""
    claimed = h.running("a")
    answers = h.parallel(*(lambda: h.settle(claimed, State.SCHEDULED) for _ in range(4)))
    assert sorted(answers) == [False, False, False, True]
