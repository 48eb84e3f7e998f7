"""The plan of a claim: a handful of statements, whatever the number of jobs, waiting or taken."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.mysql.enqueue import promote_from
from headrace.stores.mysql.heads import Heads, Place
from headrace.stores.mysql.mend import put_aside
from headrace.stores.mysql.text import fitting, listed, raw, steps, text
from headrace.stores.plan import Plan, Statement

Look = tuple[int, int, int | None]  # position of the queue, whether jobs are ready, when the next is due
Row = tuple[Any, ...]


def claim(op: ops.Claim, override: int | None, heads: Heads) -> Plan[ops.Claimed]:
    """Show a sign of life, make due jobs ready, take the head of the queues in their order."""
    yield from seen(op.worker, override, op.lease_us, op.number)
    passed = heads.passed(op.worker)
    now, last, looks = yield from _look(op, override, passed)
    if due := [raw(op.queues[key]) for key, _, due in looks if due is not None and due <= now]:
        yield from promote_from(due, now, max(BATCH, op.limit))
        _, _, looks = yield from _look(op, override, passed)
    rows: list[Row] = []
    if op.number == last:
        rows = yield Statement("claim.repeat", {"worker": raw(op.worker), "number": op.number})
    elif op.number > last:
        rows, looks = yield from _take(op, override, now, looks, heads)
    dues = [due for _, _, due in looks if due is not None]
    # jobs that are due but were too many to promote at once count as left behind
    more = any(ready for _, ready, _ in looks) or any(due <= now for due in dues)
    return ops.Claimed(now, [_claimed(row) for row in rows], more, min(dues, default=None))


def _claimed(row: Row) -> ops.ClaimedJob:
    id, queue, token, body, trail, created, base, *_ = row
    return ops.ClaimedJob(text(id), text(queue), token, body, trail, created, base)


def _look(op: ops.Claim, override: int | None, passed: Collection[str]) -> Plan[tuple[int, int, list[Look]]]:
    """The moment, the worker's last claim, and how each queue stands; those whose head is passed by count as ready."""
    names: list[bytes | None] = [*map(raw, passed)] or [None]
    params = {"now": override, "worker": raw(op.worker), "queues": listed(op.queues), "passed": names}
    rows = yield Statement("claim.look", params)
    if not rows:
        rows = yield Statement("moment.now", {"now": override})
        return rows[0][0], op.number, []
    return rows[0][0], rows[0][1] or 0, [row[2:] for row in rows]


def seen(worker: str, now: int | None, lease_us: int, number: int = 0) -> Plan[None]:
    """Extend the worker's lease, from now or the store's own moment, and note its claim."""
    params = {"worker": fitting("worker", worker), "now": now, "lease_us": lease_us, "number": number}
    yield Statement("claim.seen", params, mute=True)


def _take(
    op: ops.Claim, override: int | None, now: int, looks: list[Look], heads: Heads
) -> Plan[tuple[list[Row], list[Look]]]:
    """The jobs, and how each queue stands without them."""
    floors = heads.floors(op.worker, now)
    taken: list[Row] = []
    left = dict.fromkeys(op.queues[key] for key, ready, _ in looks if ready)
    while left and (room := op.limit - len(taken)) > 0:
        queue = next(iter(left))
        del left[queue]
        rows = yield from _head(queue, room, floors.get(queue))
        taken += yield from put_aside(rows, now)
    mark = {"worker": raw(op.worker), "number": op.number, "now": now}
    for ids in steps(sorted(row[0] for row in taken)):
        yield Statement("claim.mark", mark | {"ids": ids}, mute=True)
    heads.claimed({row[0]: row[2] for row in taken if not row[-3]})
    if len(taken) < op.limit:  # there is nothing left that others do not have in their hands
        heads.forget(op.worker)
        return taken, [(key, 0, due) for key, _, due in looks]
    if not taken:
        return taken, looks
    moment, more = yield from _behind(taken[-1], override)
    ends = {text(row[1]): (row[-2], row[-1]) for row in taken}  # the last of each queue
    heads.looked(op.worker, ends, len(taken), moment, moment - now)
    if more:
        left[text(taken[-1][1])] = None
    return taken, [(key, int(op.queues[key] in left), due) for key, _, due in looks]


def _behind(last: Row, override: int | None) -> Plan[tuple[int, bool]]:
    """The moment, and whether its queue goes on behind this job. From the head it may be a walk over dead rows."""
    params = {"now": override, "queue": last[1], "turn": last[-2], "place": last[-1]}
    rows = yield Statement("claim.more", params)
    return rows[0][0], bool(rows[0][1])


def _head(queue: str, room: int, floor: Place | None) -> Plan[list[Row]]:
    """The first jobs of a queue; those after a place, where that is known to be quicker."""
    params = {"queue": raw(queue), "limit": room}
    if floor is not None:
        rows = yield Statement("claim.take_after", params | {"turn": floor[0], "place": floor[1]})
        if len(rows) == room:
            return list(rows)
        # from the head after all, also for those just seen: they are ours already, and come again
    return list((yield Statement("claim.take", params)))
