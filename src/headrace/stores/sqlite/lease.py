"""Plans of leases: a heartbeat writes one row, a rescue gives back what the dead held."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.claim import seen
from headrace.stores.sqlite.settle import Running, end_claims
from headrace.stores.sqlite.text import listed
from headrace.stores.statements import batches


def beat(op: ops.Beat, now: int) -> Plan[ops.Beaten]:
    """Extend the worker's lease and compare what it knows with what the store holds for it."""
    yield from seen(op.worker, now + op.lease_us)
    rows = yield Statement("lease.held", {"worker": op.worker})
    mine = {id: (token, cancel) for id, token, _, cancel in rows}
    lost: list[ops.Held] = []
    cancel: list[ops.Held] = []
    for held in op.held:
        token, asked = mine.get(held.id, (None, 0))
        if token != held.token:
            lost.append(held)
        elif asked:
            cancel.append(held)
    known = {held.id for held in op.held}
    unknown = {id for id, _, number, _ in rows if id not in known and number < op.open_claim}
    if unknown:
        yield from _give_back(op.worker, unknown, now)
    return ops.Beaten(now, lost, cancel, len(unknown))


def leave(op: ops.Leave, now: int) -> Plan[int]:
    """Give back what the worker still holds and take its row away."""
    rows = yield Statement("lease.held", {"worker": op.worker})
    if rows:
        yield from _give_back(op.worker, {row[0] for row in rows}, now)
    yield Statement("lease.leave", {"worker": op.worker})
    return len(rows)


def _give_back(worker: str, ids: set[str], now: int) -> Plan[None]:
    """Unharmed: one release more on the job's trail."""
    rows = yield Statement("lease.held_whole", {"worker": worker})
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
        for id, queue, token, raw, _, _ in rows
        if id in ids
    ]
    running = {id: (place, token, cancel) for id, _, token, _, place, cancel in rows}
    yield from _end_all(outcomes, running, now)


def rescue(op: ops.Rescue, now: int) -> Plan[ops.Rescued]:
    """Give back the jobs of dead workers with one crash more, then forget the dead that hold nothing."""
    if op.not_after_us is not None and now > op.not_after_us:
        return ops.Rescued([])
    yield Statement("lease.ownerless")
    rows = yield Statement("lease.orphans", {"queues": listed(op.queues), "now": now})
    orphans: list[ops.Orphan] = []
    running: Running = {}
    for id, queue, token, worker, raw, alone, cancel, place in rows:
        if len(orphans) >= op.limit and worker != orphans[-1].worker:
            break  # a worker is rescued whole: what came later would look as if it had been alone with it
        orphans.append(ops.Orphan(id, queue, token, worker, raw, bool(alone), bool(cancel)))
        running[id] = (place, token, cancel)
    outcomes = [
        ops.Outcome(
            orphan.id,
            orphan.queue,
            orphan.token,
            State.READY,
            trail=trail.crashed(orphan.trail, worker=orphan.worker, now_us=now, alone=orphan.alone),
            keep_us=ops.CANCELLED_KEEP_US,
            reason="crashed",
        )
        for orphan in orphans
    ]
    yield from _end_all(outcomes, running, now)
    yield Statement("lease.dead", {"now": now})
    return ops.Rescued(orphans)


def _end_all(outcomes: list[ops.Outcome], running: Running, now: int) -> Plan[None]:
    for some in batches(outcomes):
        yield from end_claims(some, running, now)
