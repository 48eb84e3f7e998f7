"""Parked jobs: given back, and why there are any.

A version before this one parked and cancelled jobs without a word in `parked_for`. Where the two lists disagree, they
are first brought in line.
"""

from __future__ import annotations

from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.common import Common
from headrace.stores.redis.records import text


def unpark(store: Common, op: Unpark) -> Plan[int]:
    """One call for all queues (on a cluster one for each)."""
    total = 0
    for queues in store.groups(op.queues):
        total += yield from _unpark(store, queues, op.reason, op.limit - total)
    return total


def _unpark(store: Common, queues: tuple[str, ...], reason: str, limit: int) -> Plan[int]:
    total, mended = 0, "0"
    while total < limit:
        size = min(BATCH, limit - total)
        args = (mended, reason, str(size), str(len(queues)))
        count, *crooked = yield Call("unpark", store.keys.of_all(queues), args)
        total += count
        if crooked:
            yield from _mend(store, [queues[place] for place in crooked])
            mended = "1"
        elif count < size:
            break
    return total


def look(store: Common, op: LookParked) -> Plan[list[ParkedFor]]:
    """The same."""
    found: list[ParkedFor] = []
    counting = "1" if op.counting else "0"
    for queues in store.groups(op.queues):
        answers = yield Call("look_parked", store.keys.of_all(queues), ("0", counting, str(len(queues))))
        crooked = [queue for queue, answer in zip(queues, answers, strict=True) if answer is None]
        if crooked:
            yield from _mend(store, crooked)
            answers = yield Call("look_parked", store.keys.of_all(queues), ("1", counting, str(len(queues))))
        for queue, reasons in zip(queues, answers, strict=True):
            found += [ParkedFor(queue, text(reason), jobs) for reason, jobs in reasons]
    return sorted(found)


def _mend(store: Common, queues: list[str]) -> Plan[None]:
    """Write down the reason of each parked job, then drop what is said of others; in steps, for there may be many."""
    for queue in queues:
        for name in ("parked", "parked_for"):
            cursor = b"0"
            while True:
                cursor = yield Call("mend_parked", store.keys.of(queue), (name, cursor))
                if cursor == b"0":
                    break
