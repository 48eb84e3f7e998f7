"""Every pair of a state and an event: legal as the table says, refused otherwise."""

from itertools import product

import pytest

from headrace.core.states import LIVE, TERMINAL, TRANSITIONS, Event, State, after

LEGAL = """
scheduled promote ready
scheduled cancel cancelled
ready claim running
ready cancel cancelled
ready park parked
parked unpark ready
parked cancel cancelled
running succeed succeeded
running retry scheduled
running snooze scheduled
running defer scheduled
running release ready
running crash ready
running park parked
running fail failed
running cancel cancelled
running expire expired
failed replay ready
"""
TABLE = {(source, event): target for source, event, target in (line.split() for line in LEGAL.split("\n") if line)}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_each_pair_is_legal_or_refused(state: State, event: Event) -> None:
    expected = TABLE.get((state.value, event.value))
    if expected is not None:
        assert after(state, event) == State(expected)
    else:
        with pytest.raises(ValueError, match=rf"a job that is {state.value} cannot {event.value}"):
            after(state, event)


def test_each_state_is_live_or_terminal() -> None:
    assert set(State) == TERMINAL | LIVE
    assert not TERMINAL & LIVE


def test_a_finished_job_moves_only_by_replay_of_a_failed_one() -> None:
    leaving = {pair for pair in TRANSITIONS if pair[0] in TERMINAL}
    assert leaving == {(State.FAILED, Event.REPLAY)}


def test_every_live_state_can_reach_every_terminal_one() -> None:
    for start in LIVE:
        reached, todo = {start}, [start]
        while todo:
            state = todo.pop()
            new = {target for (source, _), target in TRANSITIONS.items() if source == state} - reached
            reached |= new
            todo += new
        assert reached >= TERMINAL, start


def test_every_event_is_used() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)
