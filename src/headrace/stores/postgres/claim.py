"""The plan of a claim: one statement, whatever the number of jobs; three when jobs have just become due."""

from __future__ import annotations

from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.enqueue import promote_due
from headrace.stores.postgres.heads import Heads

JOB = 8  # where a job's fields begin in an answer


def claim(op: ops.Claim, now: int | None, heads: Heads) -> Plan[ops.Claimed]:
    """Show a sign of life, make due jobs ready, take the head of the queues in their order.

    Each statement is complete in itself. Cut between two of them, due jobs have become ready and nothing else is done.
    """
    queues = list(dict.fromkeys(op.queues))
    floors = heads.floors(op.worker, queues)
    params = {
        "now": now,
        "worker": op.worker,
        "number": op.number,
        "queues": queues,
        "ranks": [rank for rank, _ in floors],
        "places": [place for _, place in floors],
        "limit": op.limit,
        "lease_us": op.lease_us,
    }
    rows = yield Statement("claim.take", params | {"anyway": False}, alone=True)
    if rows[0][2] is None:  # jobs are due: they go to the end of their line first
        yield from promote_due(queues, now, max(BATCH, op.limit))
        rows = yield Statement("claim.take", params | {"anyway": True}, alone=True)
    moment, due, before, more, *_ = rows[0]
    if before >= op.number:
        more, jobs = yield from _repeat(params, before)
    else:
        jobs = [ops.ClaimedJob(*row[JOB:]) for row in rows if row[JOB] is not None]
        _remember(op, rows, len(jobs), heads)
    # jobs that are due but were too many to promote at once count as left behind
    return ops.Claimed(moment, jobs, more or (due is not None and due <= moment), due)


def _remember(op: ops.Claim, rows: list[tuple[Any, ...]], count: int, heads: Heads) -> None:
    if count < op.limit or not count:
        heads.forget(op.worker)
        return
    ends = {row[JOB + 1]: (row[JOB - 2], row[JOB - 1]) for row in rows}  # the last of each queue
    heads.looked(op.worker, ends, at_us=rows[0][4], took_us=rows[0][5])


def _repeat(params: dict[str, Any], last: int) -> Plan[tuple[bool, list[ops.ClaimedJob]]]:
    """The answer of the last claim again, out of what is still held; an older claim gets nothing."""
    rows = yield Statement("claim.repeat", {name: params[name] for name in ("worker", "number", "queues")}, alone=True)
    jobs = [ops.ClaimedJob(*row[1:]) for row in rows if row[1] is not None and params["number"] == last]
    return rows[0][0], jobs
