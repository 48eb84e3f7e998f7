"""Guarantees of edits: a failed job is changed by one who has seen it as it is, and runs as it was changed."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.testing.conformance.harness import QUEUE, Harness, guarantee, job

NOTE = trail.encode(trail.Trail(attempts=3, errors=3))


def edit(h: Harness, was: bytes, body: bytes, *, id: str = "a", queue: str = QUEUE, note: bytes = NOTE) -> bool:
    """Whether it took place."""
    return h.run(ops.Edit(id, queue, was, body, note))


@guarantee
def a_failed_job_is_edited_and_runs_as_it_is_now(h: Harness) -> None:
    h.finished(job("a", priority=3), State.FAILED, reason="ValueError")
    before = h.get("a")
    assert edit(h, b"body of a", b"new body")
    after = h.get("a")
    assert (after.body, after.trail) == (b"new body", NOTE)
    assert (after.state, after.reason, after.token, after.finished_us) == (
        State.FAILED,
        before.reason,
        before.token,
        before.finished_us,
    )
    assert h.listed(State.FAILED) == ["a"]
    assert h.run(ops.Replay(("a",))).replayed == ["a"]
    (claimed,) = h.take(1)
    assert claimed.body == b"new body"
    assert claimed.trail == trail.replayed(NOTE)


@guarantee
def an_edit_of_what_has_changed_meanwhile_is_refused(h: Harness) -> None:
    h.finished("a", State.FAILED)
    assert edit(h, b"body of a", b"first")
    assert not edit(h, b"body of a", b"second")
    assert h.get("a").body == b"first"
    assert edit(h, b"body of a", b"first")  # the same again: the answer to the first time was lost
    assert edit(h, b"first", b"third")


@guarantee
def only_a_failed_job_is_edited(h: Harness) -> None:
    assert not edit(h, b"body of a", b"new")
    h.put("a")
    assert not edit(h, b"body of a", b"new")
    (claimed,) = h.take(1)
    assert not edit(h, b"body of a", b"new")
    assert h.settle(claimed, State.SUCCEEDED, keep_us=1_000_000)
    assert not edit(h, b"body of a", b"new")
    assert h.get("a").body == b"body of a"
    h.finished("b", State.FAILED)
    assert not edit(h, b"body of b", b"new", id="b", queue="elsewhere")
    assert h.run(ops.Replay(("b",))).replayed == ["b"]
    assert not edit(h, b"body of b", b"new", id="b")


@guarantee
def an_edit_reaches_no_other_job(h: Harness) -> None:
    for id in ("a", "b"):
        h.finished(job(id, body=b"same"), State.FAILED)
    h.finished(job("c", "q2", body=b"same"), State.FAILED)
    large = b"\x00\xff" * 100_000
    assert edit(h, b"same", large)
    assert [h.get(id).body for id in "abc"] == [large, b"same", b"same"]


@guarantee
def of_two_who_edit_at_once_one_wins(h: Harness) -> None:
    h.finished("a", State.FAILED)
    bodies = [b"%d" % number for number in range(6)]
    answers = h.parallel(*[lambda body=body: edit(h, b"body of a", body) for body in bodies])
    assert sorted(answers) == [False] * 5 + [True]
    assert h.get("a").body == bodies[answers.index(True)]
