"""The plan of a claim: one statement, whatever the number of jobs; three when jobs have just become due."""

from __future__ import annotations

from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.enqueue import promote_due


def claim(op: ops.Claim, now: int | None) -> Plan[ops.Claimed]:
    """Show a sign of life, make due jobs ready, take the head of the queues in their order.

    Each statement is complete in itself. Cut between two of them, due jobs have become ready and nothing else is done.
    """
    params = {
        "now": now,
        "worker": op.worker,
        "number": op.number,
        "queues": list(dict.fromkeys(op.queues)),
        "limit": op.limit,
        "lease_us": op.lease_us,
    }
    rows = yield Statement("claim.take", params | {"anyway": False}, alone=True)
    if rows[0][2] is None:  # jobs are due: they go to the end of their line first
        yield from promote_due(op.queues, now, max(BATCH, op.limit))
        rows = yield Statement("claim.take", params | {"anyway": True}, alone=True)
    moment, due, before, more, *_ = rows[0]
    if before >= op.number:
        more, jobs = yield from _repeat(params, before)
    else:
        jobs = [ops.ClaimedJob(*row[4:]) for row in rows if row[4] is not None]
    # jobs that are due but were too many to promote at once count as left behind
    return ops.Claimed(moment, jobs, more or (due is not None and due <= moment), due)


def _repeat(params: dict[str, Any], last: int) -> Plan[tuple[bool, list[ops.ClaimedJob]]]:
    """The answer of the last claim again, out of what is still held; an older claim gets nothing."""
    rows = yield Statement("claim.repeat", {name: params[name] for name in ("worker", "number", "queues")}, alone=True)
    jobs = [ops.ClaimedJob(*row[1:]) for row in rows if row[1] is not None and params["number"] == last]
    return rows[0][0], jobs
