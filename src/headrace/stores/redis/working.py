"""What workers ask: claim and promote, each one call for all queues (on a cluster one for each)."""

from __future__ import annotations

import msgspec

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import records
from headrace.stores.redis.common import Common


def claim(store: Common, op: ops.Claim) -> Plan[ops.Claimed]:
    """Take jobs, queue by queue."""
    yield from store.announce(op.queues)
    jobs: list[ops.ClaimedJob] = []
    now, more, dues = 0, False, []
    for queues in store.groups(op.queues):
        left = op.limit - len(jobs)
        args = (store.moment(), op.worker, str(op.number), str(len(queues)), str(left), str(op.lease_us))
        answer = yield Call("claim", store.keys.of_all(queues, op.worker), args)
        now, more = int(answer[0]), more or bool(answer[1])
        if answer[2] is not None:
            dues.append(int(answer[2]))
        for place, queue in enumerate(queues):
            jobs += _claimed(queue, *answer[3 * place + 3 : 3 * place + 6])
    return ops.Claimed(now, jobs, more, min(dues, default=None))


def _claimed(
    queue: str, ids: list[bytes], rows: list[bytes | None], states: list[bytes | None]
) -> list[ops.ClaimedJob]:
    """A row is missing only where the server has lost it."""
    states = states or [None] * len(ids)
    triples = zip(ids, rows, states, strict=True)
    return [records.claimed(queue, id, record, state) for id, record, state in triples if record is not None]


def promote(store: Common, op: ops.Promote) -> Plan[int]:
    """Make due jobs ready."""
    total = 0
    for queues in store.groups(op.queues):
        args = (store.moment(), str(len(queues)), str(min(op.limit, BATCH) - total))
        count: int = yield Call("promote", store.keys.of_all(queues), args)
        total += count
    return total


class Holding(msgspec.Struct, frozen=True):
    """One job that a worker holds, as holdings.lua tells it."""

    id: bytes  # as it stands there: in what another program wrote it need not be text
    token: int
    order: float
    trail: bytes | None
    cancel: bool


def holdings(store: Common, queue: str, workers: list[str]) -> Plan[dict[str, list[Holding]]]:
    """What each of the workers holds in a queue."""
    keys = store.keys.of(queue) + tuple(store.keys.held(queue, worker) for worker in workers)
    answer = yield Call("holdings", keys)
    return {
        worker: [_holding(*flat[at : at + 5]) for at in range(0, len(flat), 5)]
        for worker, flat in zip(workers, answer, strict=True)
    }


def _holding(id: bytes, token: bytes, order: bytes, state: bytes, cancel: int) -> Holding:
    trail = records.changed(state).trail if state else None
    return Holding(id, int(token), float(order), trail, bool(cancel))
