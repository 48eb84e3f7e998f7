"""Whether an outcome fits the run it reports: pure comparisons of counts and endings."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.core.operations import Outcome
from headrace.core.settle import OVER_BUDGET
from headrace.core.states import State
from headrace.core.trail import Trail
from headrace.testing.runs import Run

COUNTS = ("attempts", "errors", "crashes", "releases", "snoozes", "replays", "polls", "probes")
COSTLESS: dict[str, set[str]] = {  # what comes back for these reasons, and the only counts that may move
    "released": {"releases"},
    "snoozed": {"snoozes"},
    "pending": {"polls"},
    "unknown task": set(),
    OVER_BUDGET: set(),
    "newer message": set(),
}


def counts_of(trail: Trail) -> tuple[int, ...]:
    """All counts, to be compared."""
    return tuple(getattr(trail, name) for name in COUNTS)


def wrong_counts(before: Trail, after: Trail, outcome: Outcome) -> str:
    """A deploy, a snooze or an unknown task costs no attempt; a crash is never counted by a worker."""
    if after.polls > before.polls:  # an answer sets back what came before it
        before = replace(before, attempts=0, crashes=0)
    grown = {name: getattr(after, name) - getattr(before, name) for name in COUNTS}
    if any(step not in (0, 1) for step in grown.values()):
        return f"counts moved by {grown}"
    moved = {name for name, step in grown.items() if step}
    back = outcome.state in (State.SCHEDULED, State.READY)
    if back and moved != COSTLESS.get(outcome.reason, moved):
        return f"it moved {sorted(moved)}"
    if outcome.state is State.PARKED and moved - {"probes"}:
        return f"it was parked, which costs nothing, and moved {sorted(moved)}"
    if moved & {"crashes", "replays"}:
        return f"it moved {sorted(moved)}"
    return "errors beyond attempts" if after.errors > after.attempts and not after.polls else ""


def unlike_its_run(before: Trail, after: Trail, outcome: Outcome, run: Run | None, *, cancel: bool) -> str:
    """What the outcome says of its run that is not so. `cancel`: somebody had asked for it."""
    ended = "never started" if run is None else run.ended or "goes on"
    if outcome.state is State.SUCCEEDED and ended != "returned":
        return f"its run {ended}"
    if (outcome.state, outcome.reason) == (State.CANCELLED, "cancelled") and not cancel and ended != "Cancel":
        return "nobody had asked for it"
    vain = after.probes > before.probes  # a probe: it has run, and waits with the others once more
    if outcome.state is State.PARKED and (run is not None) != vain:
        return f"it was parked, and its run {ended}"
    if vain and ended != "raised" and (run is None or not run.overran):
        return f"it counts as a probe in vain, and its run {ended}"
    if outcome.reason == "released" and run is not None and outcome.state is State.READY:
        return _wrongly_released(run)
    return _wrongly_charged(outcome, run, ended) if after.attempts > before.attempts else ""


def _wrongly_released(run: Run) -> str:
    """A run that came to its own end is not given back, and one that is given back was stopped for a reason."""
    if run.ended != "interrupted":
        return f"its run {run.ended or 'goes on'}"
    return "" if run.may_be_interrupted else f"{run.worker} stopped its run, held it and was not stopping"


def _wrongly_charged(outcome: Outcome, run: Run | None, ended: str) -> str:
    """An attempt is used up only by a run that came to its own end or overran its time."""
    if run is None or not run.ended:
        return f"it used up an attempt, and its run {ended}"
    if outcome.reason == "timeout" and not run.overran:
        return f"it timed out after {run.lasted_s:.3f} s"
    if ended == "interrupted" and not run.overran:
        return "it used up an attempt, and its run was interrupted"
    return ""
