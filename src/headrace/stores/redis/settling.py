"""Settle: one call for all queues (on a cluster one for each), with once records and the jobs that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import once
from headrace.stores.redis.common import Common
from headrace.stores.redis.producing import BYTES, in_full

DONE, STALE, ELSEWHERE = 1, 0, 2
PLAIN, GUARDED, PARKED, OTHER = range(4)  # kinds of outcomes, in the order in which settle_more.lua is handed them


def settle(store: Common, op: ops.Settle) -> Plan[list[bool]]:
    """End claims. An outcome whose job another worker holds under the same token is settled for that one."""
    results: list[bool] = []
    for outcomes in _parts(op.outcomes):
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


def _parts(outcomes: tuple[ops.Outcome, ...]) -> Iterator[tuple[ops.Outcome, ...]]:
    """In steps of at most BATCH outcomes, or BATCH jobs that follow, and BYTES bytes (one outcome at least)."""
    first, jobs, size = 0, 0, 0
    for place, outcome in enumerate(outcomes):
        more, length = _weight(outcome) if outcome.then or outcome.once is not None else (0, 0)
        if place > first and (place - first == BATCH or jobs + more > BATCH or size + length > BYTES):
            yield outcomes[first:place]
            first, jobs, size = place, 0, 0
        jobs, size = jobs + more, size + length
    if outcomes:
        yield outcomes[first:]


def _weight(outcome: ops.Outcome) -> tuple[int, int]:
    """How many jobs follow, and the bytes of their bodies and of the result."""
    result = outcome.once.result if outcome.once is not None else None
    return len(outcome.then), len(result or b"") + sum(len(job.body) for job in outcome.then)


def _settle(store: Common, worker: str, outcomes: tuple[ops.Outcome, ...]) -> Plan[list[int]]:
    """One call per group of queues; answers stand in the order of `outcomes`."""
    more = any(outcome.once is not None or outcome.then for outcome in outcomes)
    in_order = _in_order(outcomes, more=more)
    places: dict[str, tuple[list[int], ...]] = {}
    for place, outcome in enumerate(outcomes):
        if outcome.queue not in places:
            places[outcome.queue] = ([], [], [], [])
        places[outcome.queue][OTHER if in_order else _kind(outcome)].append(place)
    codes = [STALE] * len(outcomes)
    for queues in store.groups(tuple(places)):
        sizes: list[int] = []
        order: list[int] = []
        args: list[Any] = []
        for queue in queues:
            plain, guarded, parked, others = places[queue]
            groups = _groups(outcomes, parked)
            sizes += [len(plain), *([len(guarded)] if more else []), len(groups), len(others)]
            args += _claims(outcomes, plain)
            args += _guarded(outcomes, guarded)
            for (reason, keep_us), group in groups.items():
                args += [str(len(group)), reason, str(keep_us), *_claims(outcomes, group)]
            for place in others:
                args += _change(outcomes[place])
                args += _more(store, outcomes[place]) if more else []
            order += [*plain, *guarded, *(place for group in groups.values() for place in group), *others]
        head = (store.moment(), str(len(queues)), *map(str, sizes))
        script = "settle_more" if more else "settle"
        answer = yield Call(script, store.keys.of_all(queues, worker), (*head, *args))
        for place, code in zip(order, answer, strict=True):
            codes[place] = code
    return codes


def _in_order(outcomes: tuple[ops.Outcome, ...], *, more: bool) -> bool:
    """Whether their order matters: of two for one job the first counts; a unique key is freed, then wanted, or not."""
    if len(outcomes) == 1:
        return False
    if len({outcome.id for outcome in outcomes}) < len(outcomes):
        return True
    return more and any(job.unique is not None for outcome in outcomes for job in outcome.then)


def _kind(outcome: ops.Outcome) -> int:
    if outcome.then:
        return OTHER
    if outcome.state is State.SUCCEEDED and outcome.keep_us <= 0:
        if outcome.once is None:
            return PLAIN
        return GUARDED if outcome.once.state == "done" else OTHER
    return PARKED if outcome.only_parks else OTHER


def _groups(outcomes: tuple[ops.Outcome, ...], parked: list[int]) -> dict[tuple[str, int], list[int]]:
    """Of outcomes that park, by their reasons, and by how long one is kept that was cancelled meanwhile."""
    groups: dict[tuple[str, int], list[int]] = {}
    for place in parked:
        groups.setdefault((outcomes[place].reason, outcomes[place].keep_us), []).append(place)
    return groups


def _claims(outcomes: tuple[ops.Outcome, ...], places: list[int]) -> list[Any]:
    """Ids, then tokens."""
    return [outcomes[place].id for place in places] + [b"%018d" % outcomes[place].token for place in places]


def _guarded(outcomes: tuple[ops.Outcome, ...], places: list[int]) -> list[Any]:
    """Column by column."""
    ends = [end for place in places if (end := outcomes[place].once) is not None]
    args = _claims(outcomes, places)
    args += [once.field(end.scope, end.key) for end in ends]
    args += [b"%018d" % end.fence for end in ends]
    args += [str(end.keep_us) for end in ends]
    args += [once.marked(end.result) for end in ends]
    return args


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


def _more(store: Common, outcome: ops.Outcome) -> list[Any]:
    """What settle_more.lua wants to know besides."""
    args: list[Any] = [""] if outcome.once is None else [*once.ending(outcome.once)]
    args.append(str(len(outcome.then)))
    args += in_full(store, outcome.then)
    return args
