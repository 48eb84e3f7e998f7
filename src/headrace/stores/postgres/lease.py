"""Plans of leases: a heartbeat writes one row, a rescue gives back what the dead held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.heads import Heads
from headrace.stores.postgres.settle import end_claims


def beat(op: ops.Beat, now: int | None, heads: Heads) -> Plan[ops.Beaten]:
    """Extend the worker's lease and compare what it knows with what the store holds for it."""
    params = {"now": now, "worker": op.worker, "lease_us": op.lease_us}
    rows = yield Statement("lease.beat", params, alone=True)
    mine = {id: (token, cancel) for _, id, token, _, cancel in rows if id is not None}
    lost: list[ops.Held] = []
    cancel: list[ops.Held] = []
    for held in op.held:
        token, asked = mine.get(held.id, (None, False))
        if token != held.token:
            lost.append(held)
        elif asked:
            cancel.append(held)
    known = {held.id for held in op.held}
    unknown = {id for _, id, _, number, _ in rows if id is not None and id not in known and number < op.open_claim}
    released = 0
    if unknown:
        whole = yield Statement("lease.held", {"worker": op.worker}, alone=True)
        released = yield from _give_back([row for row in whole if row[0] in unknown], now, heads)
    return ops.Beaten(rows[0][0], lost, cancel, released)


def leave(op: ops.Leave, now: int | None, heads: Heads) -> Plan[int]:
    """Give back what the worker still holds and take its row away."""
    rows = yield Statement("lease.held", {"worker": op.worker}, alone=True)
    released = (yield from _give_back(rows, now, heads)) if rows else 0
    yield Statement("lease.leave", {"worker": op.worker}, alone=True)
    return released


def _give_back(rows: Iterable[tuple[Any, ...]], now: int | None, heads: Heads) -> Plan[int]:
    """Unharmed: one release more on the job's trail. Answers how many were still held."""
    outcomes = [
        ops.Outcome(
            id,
            queue,
            token,
            State.READY,
            trail=trail.released(raw),
            keep_us=ops.CANCELLED_KEEP_US,
            reason="released",
        )
        for id, queue, token, raw in rows
    ]
    return sum((yield from end_claims(outcomes, now, heads)))


def rescue(op: ops.Rescue, now: int | None, heads: Heads) -> Plan[ops.Rescued]:
    """Give back the jobs of dead workers with one crash more, then forget the dead that hold nothing.

    One look, unless somebody is dead. Then one transaction holds the rows of the dead and of what they held: of two
    rescuers one does it all, and a heartbeat either comes before and saves its worker, or learns that it is too late.
    """
    moment, any_dead = (yield Statement("lease.dead", {"now": now}, alone=True))[0]
    if not any_dead or (op.not_after_us is not None and moment > op.not_after_us):
        return ops.Rescued([])
    dead = [worker for (worker,) in (yield Statement("lease.lock_dead", {"now": moment}))]
    rows = yield Statement("lease.orphans", {"dead": dead, "queues": list(op.queues)})
    orphans: list[ops.Orphan] = []
    for row in rows:
        if len(orphans) >= op.limit and row[3] != orphans[-1].worker:
            break  # a worker is rescued whole: what came later would look as if it had been alone with it
        orphans.append(ops.Orphan(*row))
    outcomes = [
        ops.Outcome(
            orphan.id,
            orphan.queue,
            orphan.token,
            State.READY,
            trail=trail.crashed(orphan.trail, worker=orphan.worker, now_us=moment, alone=orphan.alone),
            keep_us=ops.CANCELLED_KEEP_US,
            reason="crashed",
        )
        for orphan in orphans
    ]
    if outcomes:
        yield from end_claims(outcomes, moment, heads)
    yield Statement("lease.bury", {"dead": dead})
    return ops.Rescued(orphans)
