"""What must hold when faults have stopped and the system was given time: nothing lost, nothing left over, all ended.

Online checks, at each operation, are the ledger's (`headrace.testing.ledger`); these look at the store itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import LIVE, TERMINAL, State
from headrace.testing.entries import Violation
from headrace.testing.ledger import Ledger
from headrace.testing.polls import hooks_of
from headrace.testing.workload import TOO_NEW, Placed

Run = Callable[[ops.Operation[Any]], Any]


class Finished(msgspec.Struct):
    """A simulation after its end: the store (through `run`), what was expected, what producers were promised."""

    run: Run
    ledger: Ledger
    placed: Placed
    issued: set[str]  # ids that producers ever made
    at_s: float


def check_all(finished: Finished) -> list[Violation]:
    """Every violation that the end state shows."""
    checks = (
        nothing_lost,
        all_ended,
        replays_ended,
        as_recorded,
        no_orphans,
        bodies_kept,
        poison_convicted,
        one_hook,
        keys_free,
    )
    return [
        Violation(finished.at_s, check.__name__.replace("_", " "), job, text)
        for check in checks
        for job, text in check(finished)
    ]


Problems = Iterator[tuple[str, str]]


def nothing_lost(finished: Finished) -> Problems:
    """An acknowledged job was stored, and every stored one was sent by somebody."""
    for id in finished.placed.acknowledged:
        if id not in finished.ledger.jobs:
            yield id, "was acknowledged and never stored"
    for state in State:
        for view in _listed(finished.run, state):
            if view.id not in finished.issued and view.id not in finished.ledger.followers:
                yield view.id, f"is {state.value}, and nobody has sent it"


def all_ended(finished: Finished) -> Problems:
    """Once faults have stopped, everything ends."""
    for entry in finished.ledger.live():
        yield entry.new.id, f"is still {entry.state.value} (task {entry.new.task!r}, last reason {entry.reason!r})"


def replays_ended(finished: Finished) -> Problems:
    """So do replays, whoever drove them, as long as anybody goes on with them."""
    for id in finished.ledger.replays.open:
        yield "", f"the replay {id} has not ended"


def as_recorded(finished: Finished) -> Problems:
    """The store shows each job as its operations have left it, in one list only."""
    listed: dict[str, list[State]] = {}
    for state in State:
        for view in _listed(finished.run, state):
            listed.setdefault(view.id, []).append(state)
    for id, entry in finished.ledger.jobs.items():
        view = finished.run(ops.Get(id))
        if view is None:
            if entry.state in LIVE or entry.state is State.FAILED:
                yield id, f"should be {entry.state.value} and is gone"
            continue
        if not _same_state(view.state, entry.state) or listed.get(id) != [view.state]:
            yield id, f"should be {entry.state.value}, is {view.state.value}, stands in {listed.get(id)}"
        found = trail.decode(view.trail)
        if (found.attempts, found.errors, found.crashes) != (
            entry.counts.attempts,
            entry.counts.errors,
            entry.counts.crashes,
        ):
            yield id, f"remembers {found}, not {entry.counts}"


def _same_state(seen: State, expected: State) -> bool:
    """A scheduled job that is due may be shown as ready, and of parked ones it is not known which came back."""
    back = seen is State.READY and expected is State.PARKED
    return seen is expected or {seen, expected} == {State.READY, State.SCHEDULED} or back


def no_orphans(finished: Finished) -> Problems:
    """Nothing runs without a worker, no worker holds anything after it has left, and the counts add up."""
    for view in _listed(finished.run, State.RUNNING):
        yield view.id, f"is held by {view.worker}, and all workers have left"
    for worker in finished.run(ops.Workers()):
        if worker.held:
            yield "", f"{worker.worker} is still said to hold {worker.held} jobs"
    for queue in finished.run(ops.Queues()):
        expected = sum(
            entry.new.queue == queue.name and entry.state is State.FAILED for entry in finished.ledger.jobs.values()
        )
        if (queue.running, queue.failed) != (0, expected):
            yield (
                "",
                f"queue {queue.name} counts {queue.running} running and {queue.failed} failed, not 0 and {expected}",
            )


def bodies_kept(finished: Finished) -> Problems:
    """A message that nobody could read waits among the failed jobs, untouched."""
    for id, body in finished.placed.unreadable.items():
        entry = finished.ledger.jobs.get(id)
        if entry is None or entry.state in LIVE or entry.state is State.CANCELLED:
            continue
        view = finished.run(ops.Get(id))
        if view is None or view.state is not State.FAILED or view.body != body:
            yield id, f"was unreadable, and is not kept as it was: {view}"
        elif view.reason != ("newer message" if body == TOO_NEW else "unreadable"):
            yield id, f"was unreadable, and failed as {view.reason!r}"


_NO_RUN = ("crashed", "deadline", "unknown task", "timeout")  # the last for one that was frozen before it struck


def poison_convicted(finished: Finished) -> Problems:
    """A job that kills every worker it meets fails for that, after `max_crashes` deaths or a few more."""
    for id in finished.placed.poison:
        entry = finished.ledger.jobs.get(id)
        if entry is None:
            continue
        if entry.state is State.SUCCEEDED:
            yield id, "kills whatever runs it, and is said to have succeeded"
        elif entry.state is State.FAILED and entry.reason not in _NO_RUN:
            yield id, f"kills whatever runs it, and failed as {entry.reason!r}"


def one_hook(finished: Finished) -> Problems:
    """Exactly one of on_final and on_timeout for each poll that ended so."""
    return hooks_of(finished.ledger)


def keys_free(finished: Finished) -> Problems:
    """A unique key is free once its job has ended. Asked of the store last: it enqueues a job with each."""
    held = {(entry.new.queue, entry.new.unique): entry for entry in finished.ledger.jobs.values() if entry.new.unique}
    for (queue, key), entry in held.items():
        if any(
            other.live and other.holds_key and (other.new.queue, other.new.unique) == (queue, key)
            for other in finished.ledger.jobs.values()
        ):
            continue
        probe = ops.NewJob(f"probe-{queue}-{key}", queue, entry.new.task, b"", unique=key, unique_us=60_000_000)
        (answer,) = finished.run(ops.Enqueue((probe,)))
        if answer.status != "new":
            yield answer.id, f"has ended, and its key {key!r} is not free"
        finished.run(ops.Cancel(probe.id, queue))


def _listed(run: Run, state: State) -> Iterator[ops.JobView]:
    cursor: str | None = None
    while True:
        page: ops.Page = run(ops.List(state, cursor=cursor))
        yield from page.jobs
        if page.next is None:
            return
        cursor = page.next


def ended_as(finished: Finished) -> dict[str, int]:
    """How many jobs ended in each state, for a report."""
    states = [entry.state.value for entry in finished.ledger.jobs.values() if entry.state in TERMINAL]
    return {state: states.count(state) for state in sorted(set(states))}
