"""The states of a job and every legal transition, in one table.

The diagram in `docs/architecture.md` is drawn from `TRANSITIONS`; a pair that is not in it is illegal.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a job stands. A pause is a property of a queue, never a state of its jobs."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Event(StrEnum):
    """What moves a job from one state to another."""

    PROMOTE = "promote"  # its due time has come
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"  # given back unharmed, keeps its place in the queue
    DEFER = "defer"  # given back unharmed, due later
    CRASH = "crash"  # the lease ran out
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    PARK = "park"
    UNPARK = "unpark"
    REPLAY = "replay"


TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED})
LIVE = frozenset(State) - TERMINAL

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.SCHEDULED, Event.PROMOTE): State.READY,
    (State.SCHEDULED, Event.CANCEL): State.CANCELLED,
    (State.READY, Event.CLAIM): State.RUNNING,
    (State.READY, Event.CANCEL): State.CANCELLED,
    (State.READY, Event.PARK): State.PARKED,
    (State.PARKED, Event.UNPARK): State.READY,
    (State.PARKED, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Event.RETRY): State.SCHEDULED,
    (State.RUNNING, Event.SNOOZE): State.SCHEDULED,
    (State.RUNNING, Event.DEFER): State.SCHEDULED,
    (State.RUNNING, Event.RELEASE): State.READY,
    (State.RUNNING, Event.CRASH): State.READY,
    (State.RUNNING, Event.PARK): State.PARKED,
    (State.RUNNING, Event.FAIL): State.FAILED,
    (State.RUNNING, Event.CANCEL): State.CANCELLED,
    (State.RUNNING, Event.EXPIRE): State.EXPIRED,
    (State.FAILED, Event.REPLAY): State.READY,
}


def after(state: State, event: Event) -> State:
    """The state that `event` leads to from `state`.

    Raises:
        ValueError: the transition is not legal.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ValueError(f"a job that is {state.value} cannot {event.value}") from None


def mermaid() -> str:
    """The table as a Mermaid state diagram, for `docs/architecture.md`."""
    lines = [f"    {source.value} --> {target.value}: {event.value}" for (source, event), target in TRANSITIONS.items()]
    return "\n".join(
        ["stateDiagram-v2", "    [*] --> scheduled: enqueue, due later", "    [*] --> ready: enqueue", *lines]
    )
