"""When an operation rings: it left jobs ready that nobody is running, so workers should be woken."""

from __future__ import annotations

from headrace.core.operations import (
    POLL_US,
    Beat,
    Beaten,
    Claim,
    Claimed,
    Enqueue,
    Leave,
    Operation,
    Promote,
    Replay,
    Replayed,
    Rescue,
    Rescued,
    Settle,
)
from headrace.core.parking import Unpark
from headrace.core.states import State


def rings(operation: object, result: object) -> bool:
    """Whether workers should be woken after this operation: it left jobs ready that nobody is running."""
    match operation, result:
        case Operation(rung=str()), _:
            return True
        case Enqueue(jobs=jobs), _:
            # due within a poll counts too: an idle worker then waits for that very moment
            return any(job.delay_us < POLL_US or job.due_us is not None for job in jobs)
        case Settle(outcomes=outcomes), _:
            return any(outcome.then or outcome.state in {State.READY, State.SCHEDULED} for outcome in outcomes)
        case (
            (Claim(), Claimed(more=left))
            | (Rescue(), Rescued(jobs=left))
            | (Replay(), Replayed(replayed=left))
            | (Beat(), Beaten(released=left))
            | (Leave() | Promote() | Unpark(), int(left))
        ):
            return bool(left)
    return False
