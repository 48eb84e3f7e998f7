"""Plans of parked jobs: give some back, and say why the others are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.stores.mysql.text import STEP, is_text, listed, raw, shortened, text
from headrace.stores.plan import Plan, Statement


def unpark(op: Unpark, now: int) -> Plan[int]:
    """Queue by queue, a few hundred at a time."""
    left = op.limit
    for queue in dict.fromkeys(op.queues):
        place = {"queue": raw(queue), "reason": shortened(op.reason)}
        some = 1
        while left > 0 and some:
            back, some = yield from _unpark(place, min(left, STEP))
            left -= back
    return op.limit - left


def _unpark(place: dict[str, bytes], limit: int) -> Plan[tuple[int, int]]:
    """How many came back, and how many rows went. A row whose job is not parked any more goes too."""
    ids = sorted(id for (id,) in (yield Statement("parking.first", {**place, "limit": limit})))
    if not ids:
        return 0, 0
    back = sorted(id for (id,) in (yield Statement("parking.lock", {**place, "ids": ids})))
    going = set(ids)
    if len(back) < len(ids):
        there = yield Statement("parking.there", {**place, "ids": ids})
        going -= {id for (id,) in there}
    going |= set(back)
    if back:
        yield Statement("parking.back", {"ids": back}, mute=True)
    if going:
        yield leave(sorted(going))
    return len(back), len(going)


def enter(ids: Sequence[bytes]) -> Statement:
    """Of jobs that have been parked in this transaction."""
    return Statement("parking.enter", {"ids": ids}, mute=True)


def leave(ids: Sequence[bytes]) -> Statement:
    """Of jobs that are locked and will be parked no more."""
    return Statement("parking.leave", {"ids": ids}, mute=True)


def look(op: LookParked, now: int) -> Plan[list[ParkedFor]]:
    """From one reason to the next one of the index, however many jobs have it. One that is no text is nobody's."""
    found: set[ParkedFor] = set()
    queues = list(dict.fromkeys(op.queues))
    for queue, least in (yield Statement("parking.least", {"queues": listed(queues)})):
        reason = least
        while reason is not None:
            if is_text(reason):
                jobs = (yield from _count(queue, reason)) if op.counting else None
                if jobs != 0:  # else all of them have just come back
                    found.add(ParkedFor(text(queue), text(reason), jobs))
            rows = yield Statement("parking.next", {"queue": queue, "reason": reason})
            reason = rows[0][0] if rows else None
    return sorted(found)


def _count(queue: bytes, reason: bytes) -> Plan[int]:
    """In the index alone. Jobs that older code has cancelled count until others of the reason come back before them."""
    ((jobs,),) = yield Statement("parking.count", {"queue": queue, "reason": reason})
    return int(jobs)


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {Unpark: unpark, LookParked: look}
