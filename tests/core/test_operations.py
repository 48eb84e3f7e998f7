"""When an operation rings: it left jobs ready that nobody is running."""

import pytest

from headrace.core import operations as ops
from headrace.core.parking import LookParked, Unpark
from headrace.core.ringing import rings
from headrace.core.states import State


def new(**options: object) -> ops.NewJob:
    return ops.NewJob("a", "q", "t", b"{}", **options)  # type: ignore[arg-type]


def outcome(state: State, delay_us: int = 0) -> ops.Outcome:
    return ops.Outcome("a", "q", 1, state, delay_us)


ORPHAN = ops.Orphan("a", "q", 1, "w", None, alone=True)
CLAIMED = ops.ClaimedJob("a", "q", 1, b"{}", None, 1, 1)
CLAIM = ops.Claim("w", 1, ("q",), 10, 1000)
HELD = ops.Held("a", "q", 1)
BEAT = ops.Beat("w", ("q",), 1000, (), 1)

RINGING = [
    (ops.Enqueue((new(),)), [ops.Enqueued("new", "a")]),
    (ops.Enqueue((new(delay_us=5), new())), [ops.Enqueued("new", "a")] * 2),
    (ops.Enqueue((new(due_us=1),)), [ops.Enqueued("new", "a")]),  # whether it is due, only the store knows
    (ops.Settle("w", (outcome(State.READY),)), [True]),
    (ops.Settle("w", (outcome(State.SUCCEEDED), outcome(State.READY))), [True, True]),
    (ops.Settle("w", (outcome(State.SCHEDULED, 5),)), [True]),  # idle workers look up anew when the next one is due
    (CLAIM, ops.Claimed(1, [CLAIMED], more=True, next_due_us=None)),
    (ops.Rescue(("q",)), ops.Rescued([ORPHAN])),
    (ops.Replay(("a",)), ops.Replayed(["a"], {})),
    (BEAT, ops.Beaten(1, [], [], 1)),
    (ops.Enqueue((new(delay_us=ops.POLL_US - 1),)), [ops.Enqueued("new", "a")]),
    (ops.Leave("w", ("q",)), 2),
    (ops.Promote(("q",)), 1),
    (Unpark(("q",), "circuit", 5), 1),
]
SILENT = [
    (ops.Enqueue(()), []),
    (ops.Enqueue((new(delay_us=ops.POLL_US),)), [ops.Enqueued("new", "a")]),
    (ops.Settle("w", (outcome(State.SUCCEEDED), outcome(State.FAILED))), [True, True]),
    (CLAIM, ops.Claimed(1, [CLAIMED], more=False, next_due_us=None)),
    (ops.Rescue(("q",)), ops.Rescued([])),
    (ops.Replay(("a",)), ops.Replayed([], {"a": "absent"})),
    (BEAT, ops.Beaten(1, [HELD], [HELD], 0)),
    (ops.Leave("w", ("q",)), 0),
    (ops.Prepare(), None),
    (ops.Cancel("a"), "cancelled"),
    (ops.Get("a"), None),
    (ops.Queues(), []),
    (ops.Forget(("a",)), 1),
    (ops.Prune(), ops.Pruned(3, more=True)),
    (ops.Inspect(), []),
    (Unpark(("q",), "circuit", 5), 0),
    (LookParked(("q",)), []),
]


def name(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize(("operation", "result"), RINGING, ids=name)
def test_it_rings(operation: object, result: object) -> None:
    assert rings(operation, result)


@pytest.mark.parametrize(("operation", "result"), SILENT, ids=name)
def test_it_does_not_ring(operation: object, result: object) -> None:
    assert not rings(operation, result)


def test_a_claim_cannot_end_in_running() -> None:
    with pytest.raises(ValueError, match="'a' cannot end in running"):
        outcome(State.RUNNING)


def test_operations_that_only_look_say_so() -> None:
    looking = {operation for operation in vars(ops).values() if getattr(operation, "writes", True) is False}
    assert {operation.__name__ for operation in looking} == {"Get", "List", "Queues", "Workers", "Inspect"}
