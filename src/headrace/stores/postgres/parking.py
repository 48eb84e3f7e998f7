"""Plans of parked jobs: give some back, and say why the others are held. A statement each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.settle import storable


def unpark(op: Unpark, now: int | None) -> Plan[int]:
    """Queue by queue, from the one index that has them in the order of claims."""
    params = {"queues": list(dict.fromkeys(op.queues)), "reason": storable(op.reason), "limit": op.limit}
    return len((yield Statement("parking.unpark", params, alone=True)))


def look(op: LookParked, now: int | None) -> Plan[list[ParkedFor]]:
    """From one reason to the next one of the index, however many jobs have it."""
    rows = yield Statement("parking.look", {"queues": list(op.queues), "counting": op.counting}, alone=True)
    return sorted({ParkedFor(*row) for row in rows})


PLANS: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {Unpark: unpark, LookParked: look}
