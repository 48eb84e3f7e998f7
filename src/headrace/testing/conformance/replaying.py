"""Guarantees about failed jobs that an operator makes ready again: the same job, once, from the start."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import QUEUE, Harness, flat, guarantee, ids, job

MISHAP = trail.Mishap("error", 5, 3, "w1", type="ValueError", message="no")


@guarantee
def a_replay_keeps_the_job_and_resets_its_counts(h: Harness) -> None:
    new = job("a", "q2", priority=7, task="mail.send", unique="k", derived=True)
    memory = trail.encode(
        trail.Trail(attempts=3, errors=2, crashes=1, releases=4, snoozes=5, delay_us=9, history=(MISHAP,))
    )
    claimed = h.finished(new, State.FAILED, trail=memory, reason="ValueError")
    before = h.get("a")
    h.clock.advance(3600)
    assert h.run(ops.Replay(("a",))) == ops.Replayed(["a"], {})
    view = h.get("a")
    assert (view.state, view.reason, view.finished_us) == (State.READY, "", None)
    assert (view.id, view.queue, view.task, view.priority, view.unique) == ("a", "q2", "mail.send", 7, "k")
    assert (view.body, view.created_us) == (before.body, before.created_us)
    assert view.base_us == view.due_us == h.clock() - 1
    assert view.token > claimed.token
    assert trail.decode(view.trail) == trail.Trail(replays=1, history=(MISHAP,))
    again = h.take(1, queues=("q2",))[0]
    assert (again.base_us, again.created_us, again.token) == (view.base_us, before.created_us, view.token)
    assert not h.settle(claimed, State.SUCCEEDED)


@guarantee
def a_replayed_job_goes_to_the_end_of_its_priority(h: Harness) -> None:
    h.finished("a", State.FAILED)
    h.put("b", job("low", priority=-1))
    h.run(ops.Replay(("a",)))
    assert ids(h.claim(5).jobs) == ["b", "a", "low"]


@guarantee
def only_failed_jobs_are_replayed(h: Harness) -> None:
    h.finished("succeeded", State.SUCCEEDED, keep_us=MICROSECONDS)
    h.running("running")
    h.put("ready", job("scheduled", delay_us=MICROSECONDS * 60))
    replayed = h.run(ops.Replay(("succeeded", "running", "ready", "scheduled", "nobody")))
    assert replayed.replayed == []
    assert replayed.skipped == {
        "succeeded": "is succeeded",
        "running": "is running",
        "ready": "is ready",
        "scheduled": "is scheduled",
        "nobody": "absent",
    }


@guarantee
def an_id_twice_in_one_replay_runs_once(h: Harness) -> None:
    h.finished("a", State.FAILED)
    replayed = h.run(ops.Replay(("a", "a")))
    assert (replayed.replayed, replayed.skipped) == (["a"], {"a": "is ready"})
    assert ids(h.claim(5).jobs) == ["a"]


@guarantee
def two_replays_at_once_make_one_run(h: Harness) -> None:
    """B135: the record is moved, never copied; both fail again and are failed once."""
    names = [f"{n}" for n in range(10)]
    for name in names:
        h.finished(name, State.FAILED)
    answers = h.parallel(*(lambda: h.run(ops.Replay(tuple(names))) for _ in range(3)))
    assert sorted(flat(answer.replayed for answer in answers)) == names
    claimed = h.claim(50).jobs
    assert sorted(ids(claimed)) == names
    assert all(h.settle(each, State.FAILED) for each in claimed)
    assert sorted(h.listed(State.FAILED)) == names
    assert h.queue().failed == 10


@guarantee
def what_has_failed_again_meanwhile_is_not_replayed_again(h: Harness) -> None:
    """B135: two operators press at once, and the jobs of the first fail again before the second comes to them."""
    h.finished("a", State.FAILED)
    h.finished(job("b", unique="k"), State.FAILED)
    h.clock.advance(1)
    pressed = h.clock()
    assert h.run(ops.Replay(("a",), before_us=pressed)).replayed == ["a"]
    assert h.settle(h.take(1)[0], State.FAILED)
    again = h.run(ops.Replay(("a", "b", "nobody"), before_us=pressed))
    assert (again.replayed, again.skipped) == (["b"], {"a": "is failed again", "nobody": "absent"})
    assert h.run(ops.Replay(("a",))).replayed == ["a"]


@guarantee
def thousands_of_failed_jobs_are_replayed_in_one_operation(h: Harness) -> None:
    names = [f"{n:04}" for n in range(2_500)]
    h.put(*names)
    claimed = h.take(2_500)
    h.run(ops.Settle("w1", tuple(ops.Outcome(each.id, each.queue, each.token, State.FAILED) for each in claimed)))
    assert h.queue().failed == 2_500
    assert h.run(ops.Replay(tuple(names))).replayed == names
    assert (h.queue().failed, h.queue().ready) == (0, 2_500)
    assert ids(h.claim(3_000).jobs) == names


@guarantee
def a_replayed_job_may_fail_and_be_replayed_again(h: Harness) -> None:
    claimed = h.finished("a", State.FAILED)
    for replays in (1, 2, 3):
        assert h.run(ops.Replay(("a",), QUEUE)).replayed == ["a"]
        claimed = h.take(1)[0]
        assert trail.decode(claimed.trail).replays == replays
        assert h.settle(claimed, State.FAILED, trail=claimed.trail)
    assert not h.settle(claimed, State.SUCCEEDED)
