"""The register of a replay: every change puts up with what it finds, and is as good twice as once."""

import pytest

from headrace.core.replays import (
    REGISTERS,
    AskTime,
    CancelReplay,
    LeaveReplay,
    ReplayRun,
    StartReplay,
    StepReplay,
    TakeReplay,
    decode,
)

NAME = REGISTERS + "r"
START = StartReplay(register=NAME, run=ReplayRun(id="r", canary=2))
TAKE = TakeReplay(register=NAME, driver="d", lease_us=10)
STEP = StepReplay(register=NAME, driver="d", phase="running", total=5, replayed=3, skipped=1, skips={"a": "absent"})
LEAVE = LeaveReplay(register=NAME, driver="d")
CANCEL = CancelReplay(register=NAME, by="ann")
ALL = (START, TAKE, STEP, LEAVE, CANCEL)


@pytest.mark.parametrize("change", ALL)
@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"id":1}', b'{"id":"r","where":{"moon":"full"}}'])
def test_what_cannot_be_read_is_left_alone(change: StartReplay, body: bytes) -> None:
    changed = change.apply(body, 5)
    assert (changed.body, changed.answer.run) == (body, None)


@pytest.mark.parametrize("change", ALL[1:])
def test_what_is_not_there_is_not_made(change: TakeReplay) -> None:
    changed = change.apply(None, 5)
    assert (changed.body, changed.answer.run) == (None, None)


def test_a_clock_that_was_set_back_keeps_no_dead_driver_alive() -> None:
    body = START.apply(None, 1_000_000).body
    body = TAKE.apply(body, 1_000_000).body
    other = TakeReplay(register=NAME, driver="e", lease_us=10)
    assert other.apply(body, 1_000_009).answer.run.driver == "d"
    assert other.apply(body, 500_000).answer.run.driver == "e"


def test_each_change_heard_twice_is_as_good_as_once() -> None:
    body = None
    for change in ALL:
        once = change.apply(body, 5)
        twice = change.apply(once.body, 5)
        assert once.body == twice.body
        assert once.answer == twice.answer
        body = once.body
    run = decode(body)
    assert run is not None
    assert (run.phase, run.why, run.replayed, run.started_us) == ("cancelled", "cancelled by ann", 3, 5)


def test_a_lease_keeps_others_out_until_it_is_over() -> None:
    started = START.apply(None, 5).body
    taken = TAKE.apply(started, 6)
    other = TakeReplay(register=NAME, driver="e")
    refused = other.apply(taken.body, 15)
    assert (refused.body, refused.answer.run.driver, refused.answer.run.lease_until_us) == (taken.body, "d", 16)
    over = other.apply(taken.body, 16)
    assert over.answer.run.driver == "e"
    assert STEP.apply(over.body, 17).body == over.body
    assert LEAVE.apply(over.body, 17).body == over.body


def test_what_has_ended_stays_as_it_is() -> None:
    ended = CANCEL.apply(START.apply(None, 5).body, 6).body
    assert all(change.apply(ended, 9).body == ended for change in ALL)


def test_asking_for_the_time_changes_nothing() -> None:
    for body in (None, b"something"):
        changed = AskTime().apply(body, 17)
        assert (changed.body, changed.answer) == (body, 17)
