"""Plans of leases: a heartbeat writes one row, a rescue gives back what the dead held."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.mysql.claim import seen
from headrace.stores.mysql.settle import Running, end_claims
from headrace.stores.mysql.text import raw, steps, text
from headrace.stores.plan import Plan, Statement


def beat(op: ops.Beat, now: int) -> Plan[ops.Beaten]:
    """Extend the worker's lease and compare what it knows with what the store holds for it."""
    yield from seen(op.worker, now, op.lease_us)
    rows = yield Statement("lease.held", {"worker": raw(op.worker)})
    mine = {text(id): (token, cancel) for id, token, _, cancel in rows}
    lost: list[ops.Held] = []
    cancel: list[ops.Held] = []
    for held in op.held:
        token, asked = mine.get(held.id, (None, 0))
        if token != held.token:
            lost.append(held)
        elif asked:
            cancel.append(held)
    known = {raw(held.id) for held in op.held}
    unknown = {id for id, _, number, _ in rows if id not in known and number < op.open_claim}
    released = (yield from _give_back(op.worker, unknown, now)) if unknown else 0
    return ops.Beaten(now, lost, cancel, released)


def leave(op: ops.Leave, now: int) -> Plan[int]:
    """Give back what the worker still holds and take its row away."""
    released = yield from _give_back(op.worker, None, now)
    yield Statement("lease.leave", {"worker": raw(op.worker)})
    return released


def _give_back(worker: str, ids: set[bytes] | None, now: int) -> Plan[int]:
    """Unharmed: one release more on the job's trail. `None` stands for all that it holds; answers how many."""
    rows = [
        row for row in (yield Statement("lease.held_whole", {"worker": raw(worker)})) if ids is None or row[0] in ids
    ]
    outcomes = [
        ops.Outcome(
            text(id),
            text(queue),
            token,
            State.READY,
            trail=trail.released(memory),
            keep_us=ops.CANCELLED_KEEP_US,
            reason="released",
        )
        for id, queue, token, memory, _, _ in rows
    ]
    running = {id: (token, cancel, derived) for id, _, token, _, cancel, derived in rows}
    yield from _end_all(outcomes, running, now)
    return len(rows)


def rescue(op: ops.Rescue, now: int) -> Plan[ops.Rescued]:
    """Give back the jobs of dead workers with one crash more, then forget the dead that hold nothing."""
    if op.not_after_us is not None and now > op.not_after_us:
        return ops.Rescued([])
    orphans: list[ops.Orphan] = []
    running: Running = {}
    for worker in (yield from _dead(op.queues, now)):
        if len(orphans) >= op.limit:
            break
        rows = yield Statement("lease.orphans", {"worker": worker})
        for id, queue, token, memory, cancel, derived, held in rows:
            running[id] = (token, cancel, derived)
            # a worker is rescued whole: what came later would look as if it had been alone with it
            orphans.append(ops.Orphan(text(id), text(queue), token, text(worker), memory, held == 1, bool(cancel)))
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
    yield from _forget_dead(now)
    return ops.Rescued(orphans)


def _dead(queues: Sequence[str], now: int) -> Plan[list[bytes]]:
    """The dead that hold something in these queues; whoever has shown a sign of life meanwhile is none of them."""
    names = sorted({raw(queue) for queue in queues})
    rows = yield Statement("lease.dead", {"queues": names or [b""], "now": now})
    workers = [worker for (worker,) in rows]
    living: set[bytes] = set()
    for some in steps(workers):
        for worker, until in (yield Statement("lease.locked", {"workers": some})):
            if until > now:
                living.add(worker)
    return [worker for worker in workers if worker not in living]


def _forget_dead(now: int) -> Plan[None]:
    rows = yield Statement("lease.idle", {"now": now})
    for some in steps([worker for (worker,) in rows]):
        yield Statement("lease.forget", {"workers": some, "now": now})


def _end_all(outcomes: Sequence[ops.Outcome], running: Running, now: int) -> Plan[None]:
    for some in steps(outcomes):
        yield from end_claims(some, running, now)
