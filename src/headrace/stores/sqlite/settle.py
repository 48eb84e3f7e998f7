"""The plan of a settle, and the one path out of `running` that everything else takes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.core.transactions import Committed, Completed
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.enqueue import enqueue
from headrace.stores.sqlite.once import find_holders
from headrace.stores.sqlite.text import by_id, listed

# Tombstones are kept this much longer than promised, against a clock that is set back.
CLOCK_MARGIN_US = 60 * 1_000_000


Running = dict[str, tuple[int, int, int]]  # id -> (place, token, whether somebody asked to cancel)
_NOT_RUNNING = (0, -1, 0)  # no token is below 0


def settle(op: ops.Settle, now: int) -> Plan[list[bool]]:
    """End claims, and clear away about twice as many old tombstones as this leaves new ones."""
    answers = yield from borrowed(op, now)
    yield Statement("settle.forget_gone", {"before": now - CLOCK_MARGIN_US, "limit": 2 * len(answers)})
    return answers


def borrowed(op: ops.Settle, now: int) -> Plan[list[bool]]:
    """The same in a transaction of the caller's: no rows but those of the jobs are touched."""
    answers: list[bool] = []
    for some, ids in by_id(op.outcomes, lambda outcome: outcome.id):
        rows = yield Statement("settle.running", ids)
        running = {id: (place, token, cancel) for id, place, token, cancel in rows}
        answers += yield from end_claims(some, running, now)
    return answers


def completed(op: Completed, now: int) -> Plan[Committed]:
    """Under the lock of a writer, so that no other transaction is open."""
    rows = yield Statement("settle.standing", {"id": op.id})
    return "no" if any(token > op.token or (token == op.token and held) for token, held in rows) else "yes"


def end_claims(outcomes: Sequence[ops.Outcome], running: Running, now: int) -> Plan[list[bool]]:
    """Take every job whose token matches out of `running`, and end what ends with it.

    False stands where the token does not match, or where its once record is not the job's any more: the job stays.
    """
    holders = yield from find_holders([outcome.once for outcome in outcomes if outcome.once is not None])
    answers: list[bool] = []
    ends: list[ops.OnceEnd] = []
    then: list[ops.NewJob] = []
    ending: list[tuple[int, ops.Outcome, State]] = []
    returning: list[tuple[Any, ...]] = []
    for outcome in outcomes:
        place, token, cancel = running.get(outcome.id, _NOT_RUNNING)
        once = outcome.once
        answers.append(token == outcome.token and (once is None or holders.holds(once, outcome.id, token)))
        if not answers[-1]:
            continue
        if once is not None:
            ends.append(once)
        del running[outcome.id]  # a second outcome for the same claim is stale
        if outcome.state in TERMINAL:
            ending.append((place, outcome, outcome.state))
            then += outcome.then
        elif cancel:
            ending.append((place, outcome, State.CANCELLED))
        else:
            returning.append(_back(place, token, outcome, now))
    if ending:
        yield from _end(ending, now)
    if returning:
        yield Statement("settle.back", many=returning)
    yield from holders.end(ends, now)
    if then:
        yield from enqueue(ops.Enqueue(tuple(then)), now)
    return answers


def _back(place: int, token: int, outcome: ops.Outcome, now: int) -> tuple[Any, ...]:
    """The token rises, so that whoever held the old one can change nothing any more."""
    due = None if outcome.state is State.READY else now + outcome.delay_us
    token = max(token + 1, now)
    return (outcome.state.value, token, due, token, due, outcome.reason, outcome.trail, place)


def _end(ending: Sequence[tuple[int, ops.Outcome, State]], now: int) -> Plan[None]:
    kept = [
        _kept(place, outcome, state, now)
        for place, outcome, state in ending
        if state is State.FAILED or outcome.keep_us > 0
    ]
    yield from end_places([place for place, _, _ in ending], kept, now)


def _kept(place: int, outcome: ops.Outcome, state: State, now: int) -> tuple[Any, ...]:
    keep_until = None if state is State.FAILED else now + outcome.keep_us
    reason = outcome.reason if state is outcome.state else "cancelled"
    return (state.value, now, keep_until, reason, outcome.trail, place)


def end_places(places: Sequence[int], kept: list[tuple[Any, ...]], now: int) -> Plan[None]:
    """The one way a job ends: a tombstone for its id, a copy where it is kept; its key goes with its row."""
    params = {"places": listed(places)}
    lives = {"random_us": TOMBSTONE_US, "derived_us": TOMBSTONE_DERIVED_US, "now": now}
    yield Statement("settle.bury", params | lives)
    if kept:
        yield Statement("settle.keep", many=kept)
    yield Statement("settle.delete", params)


def cancel_waiting(place: int, op: ops.Cancel, now: int) -> Plan[None]:
    """End a job that nobody runs."""
    state = State.CANCELLED
    outcome = ops.Outcome(op.id, op.queue or "", 0, state, keep_us=op.keep_us, reason="cancelled")
    yield from _end([(place, outcome, state)], now)
