"""What workers ask: claim, settle and promote, each one call for all queues (on a cluster one for each)."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import records
from headrace.stores.redis.common import Common

DONE, STALE, ELSEWHERE = 1, 0, 2


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


def settle(store: Common, op: ops.Settle) -> Plan[list[bool]]:
    """End claims. An outcome whose job another worker holds under the same token is settled for that one."""
    results: list[bool] = []
    for start in range(0, len(op.outcomes), BATCH):
        outcomes = op.outcomes[start : start + BATCH]
        codes = yield from _settle(store, op.worker, outcomes)
        if ELSEWHERE in codes:
            codes = yield from _settle_elsewhere(store, op.worker, outcomes, codes)
        results += [code == DONE for code in codes]
    return results


def _settle_elsewhere(
    store: Common, worker: str, outcomes: tuple[ops.Outcome, ...], codes: list[int]
) -> Plan[list[int]]:
    """Rare: mostly the job was rescued and runs elsewhere under a newer token, which this finds out as well."""
    places: dict[tuple[str, str], list[int]] = {}
    for queue in {outcomes[place].queue for place, code in enumerate(codes) if code == ELSEWHERE}:
        missing = [place for place, code in enumerate(codes) if code == ELSEWHERE and outcomes[place].queue == queue]
        holders = yield from store.holders(queue, [outcomes[place].id for place in missing])
        for place in missing:
            holder = holders.get(outcomes[place].id, worker)
            if holder != worker:
                places.setdefault((queue, holder), []).append(place)
    codes = [STALE if code == ELSEWHERE else code for code in codes]
    for (_, holder), group in places.items():
        again = yield from _settle(store, holder, tuple(outcomes[place] for place in group))
        for place, code in zip(group, again, strict=True):
            codes[place] = code
    return codes


def _settle(store: Common, worker: str, outcomes: tuple[ops.Outcome, ...]) -> Plan[list[int]]:
    """One call per group of queues; answers stand in the order of `outcomes`."""
    places: dict[str, tuple[list[int], list[int]]] = {}
    repeated = len({outcome.id for outcome in outcomes}) < len(outcomes)  # then the first one in order counts
    for place, outcome in enumerate(outcomes):
        if outcome.queue not in places:
            places[outcome.queue] = ([], [])
        places[outcome.queue][repeated or not _is_plain(outcome)].append(place)
    codes = [STALE] * len(outcomes)
    for queues in store.groups(tuple(places)):
        order = [place for queue in queues for part in places[queue] for place in part]
        args: list[Any] = [store.moment(), str(len(queues))]
        args += [str(len(part)) for queue in queues for part in places[queue]]
        for queue in queues:
            plain, others = places[queue]
            args += [outcomes[place].id for place in plain]
            args += [b"%018d" % outcomes[place].token for place in plain]
            for place in others:
                args += _change(outcomes[place])
        answer = yield Call("settle", store.keys.of_all(queues, worker), tuple(args))
        for place, code in zip(order, answer, strict=True):
            codes[place] = code
    return codes


def _is_plain(outcome: ops.Outcome) -> bool:
    return outcome.state is State.SUCCEEDED and outcome.keep_us <= 0


def _change(outcome: ops.Outcome) -> tuple[Any, ...]:
    return (
        outcome.id,
        b"%018d" % outcome.token,
        outcome.state.value,
        str(outcome.delay_us),
        str(outcome.keep_us),
        outcome.reason,
        outcome.trail or b"",
    )


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
