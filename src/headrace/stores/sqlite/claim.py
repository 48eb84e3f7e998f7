"""The plan of a claim: a handful of statements, whatever the number of jobs, waiting or taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.enqueue import promote_from
from headrace.stores.sqlite.text import ForeignRow, listed

# What stands in the fields of a `ClaimedJob`; SQLite keeps whatever another program writes to a column.
_KINDS: tuple[frozenset[type], ...] = tuple(
    map(frozenset, ((str,), (str,), (int,), (bytes,), (bytes, type(None)), (int,), (int,)))
)


def claim(op: ops.Claim, now: int) -> Plan[ops.Claimed]:
    """Show a sign of life, make due jobs ready, take the head of the queues in their order."""
    last = yield from seen(op.worker, now + op.lease_us, op.number)
    looks = yield from _look(op.queues)
    if due := [op.queues[key] for key, _, due in looks if due is not None and due <= now]:
        yield from promote_from(due, now, max(BATCH, op.limit))
        looks = yield from _look(op.queues)
    if op.number == last:
        rows = yield Statement("claim.repeat", {"worker": op.worker, "number": op.number})
    elif op.number < last:
        rows = []
    elif rows := (yield from _take(op, now, [op.queues[key] for key, ready, _ in looks if ready])):
        looks = yield from _look(op.queues)
    _check(rows)
    dues = [due for _, _, due in looks if due is not None]
    # jobs that are due but were too many to promote at once count as left behind
    more = any(ready for _, ready, _ in looks) or any(due <= now for due in dues)
    return ops.Claimed(now, [ops.ClaimedJob(*row) for row in rows], more, min(dues, default=None))


def _check(rows: Sequence[tuple[Any, ...]]) -> None:
    """Column by column, which costs a quarter of a microsecond a job."""
    for kinds, column in zip(_KINDS, zip(*rows, strict=True), strict=False):
        if not kinds.issuperset(map(type, column)):
            raise ForeignRow("no worker can be given what another program wrote")


def seen(worker: str, until: int, number: int = 0) -> Plan[int]:
    """Extend the worker's lease and note its claim; answers its last claim before this one."""
    rows = yield Statement("claim.last", {"worker": worker})
    yield Statement("claim.seen", {"worker": worker, "until_us": until, "number": number})
    return rows[0][0] if rows else 0


def _look(queues: tuple[str, ...]) -> Plan[list[tuple[int, int, int | None]]]:
    """(position of the queue, whether jobs are ready, when the next is due) for each queue."""
    looks: list[tuple[int, int, int | None]] = yield Statement("claim.look", {"queues": listed(queues)})
    return looks


def _take(op: ops.Claim, now: int, queues: Sequence[str]) -> Plan[list[tuple[Any, ...]]]:
    taken: list[tuple[Any, ...]] = []
    started: list[int] = []
    for queue in queues:
        if (room := op.limit - len(taken)) <= 0:
            break
        params = {"worker": op.worker, "number": op.number, "now": now, "queue": queue, "limit": room}
        rows = yield Statement("claim.take", params)
        rows.sort(key=_order)
        started += [row[1] for row in rows if row[2]]
        taken += [row[3:] for row in rows]
    if started:
        yield Statement("claim.free_started", {"places": listed(started)})
    return taken


def _order(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[:2]
