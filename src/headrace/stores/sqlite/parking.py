"""Plans of parked jobs: give some back, and say why the others are held."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.text import is_text, listed


def unpark(op: Unpark, now: int) -> Plan[int]:
    """Queue by queue, from the one index that has them in the order of claims."""
    left = op.limit
    for queue in dict.fromkeys(op.queues):
        if left <= 0:
            break
        rows = yield Statement("parking.unpark", {"queue": queue, "reason": op.reason, "limit": left})
        left -= len(rows)
    return op.limit - left


def look(op: LookParked, now: int) -> Plan[list[ParkedFor]]:
    """From one reason to the next one of the index, however many jobs have it. One that is no text is nobody's."""
    rows = yield Statement("parking.look", {"queues": listed(op.queues), "counting": op.counting})
    return sorted({ParkedFor(queue, reason.decode(), jobs) for queue, reason, jobs in rows if is_text(reason)})


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {Unpark: unpark, LookParked: look}
