"""The plan of a claim: a handful of statements, whatever the number of jobs, waiting or taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.mysql.enqueue import promote_from
from headrace.stores.mysql.mend import put_aside
from headrace.stores.mysql.text import fitting, listed, raw, steps, text
from headrace.stores.plan import Plan, Statement

Look = tuple[int, int, int | None]  # position of the queue, whether jobs are ready, when the next is due
Row = tuple[Any, ...]


def claim(op: ops.Claim, override: int | None) -> Plan[ops.Claimed]:
    """Show a sign of life, make due jobs ready, take the head of the queues in their order."""
    now, last, looks = yield from _look(op, override)
    yield from seen(op.worker, now + op.lease_us, op.number)
    if due := [raw(op.queues[key]) for key, _, due in looks if due is not None and due <= now]:
        yield from promote_from(due, now, max(BATCH, op.limit))
        _, _, looks = yield from _look(op, override)
    rows: list[Row] = []
    if op.number == last:
        rows = yield Statement("claim.repeat", {"worker": raw(op.worker), "number": op.number})
    elif op.number > last:
        rows = yield from _take(op, now, [op.queues[key] for key, ready, _ in looks if ready])
        if len(rows) >= op.limit:  # else there is nothing left that others do not have in their hands
            _, _, looks = yield from _look(op, override)
        else:
            looks = [(key, 0, due) for key, _, due in looks]
    dues = [due for _, _, due in looks if due is not None]
    # jobs that are due but were too many to promote at once count as left behind
    more = any(ready for _, ready, _ in looks) or any(due <= now for due in dues)
    return ops.Claimed(now, [_claimed(row) for row in rows], more, min(dues, default=None))


def _claimed(row: Row) -> ops.ClaimedJob:
    id, queue, token, body, trail, created, base = row
    return ops.ClaimedJob(text(id), text(queue), token, body, trail, created, base)


def _look(op: ops.Claim, override: int | None) -> Plan[tuple[int, int, list[Look]]]:
    """The moment, the worker's last claim, and how each queue stands."""
    params = {"now": override, "worker": raw(op.worker), "queues": listed(op.queues)}
    rows = yield Statement("claim.look", params)
    if not rows:
        rows = yield Statement("moment.now", {"now": override})
        return rows[0][0], 0, []
    return rows[0][0], rows[0][1] or 0, [row[2:] for row in rows]


def seen(worker: str, until: int, number: int = 0) -> Plan[None]:
    """Extend the worker's lease and note its claim."""
    yield Statement("claim.seen", {"worker": fitting("worker", worker), "until_us": until, "number": number})


def _take(op: ops.Claim, now: int, queues: Sequence[str]) -> Plan[list[Row]]:
    taken: list[Row] = []
    for queue in queues:
        if (room := op.limit - len(taken)) <= 0:
            break
        rows = yield Statement("claim.take", {"queue": raw(queue), "limit": room})
        taken += yield from put_aside(rows, now)
    mark = {"worker": raw(op.worker), "number": op.number, "now": now}
    for ids in steps(sorted(row[0] for row in taken)):
        yield Statement("claim.mark", mark | {"ids": ids})
    return taken
