"""Plans of registers: read, let the changes decide, write what they changed, under the lock of a writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.stores.plan import Plan, Statement
from headrace.stores.registers import Amended, end_of
from headrace.stores.sqlite.text import listed


def amend(op: Amend, now: int) -> Plan[list[Any]]:
    """Nothing is written where the changes leave all as it is."""
    names = listed(sorted({change.register for change in op.changes}))
    found = yield Statement("registers.found", {"names": names})
    amended = Amended(op.changes, {name: (body, until) for name, body, until in found}, now)
    if amended.written:
        yield Statement("registers.write", many=amended.written)
    if amended.erased:
        yield Statement("registers.erase", {"names": listed(amended.erased)})
    return amended.answers


def look(op: LookRegisters, now: int) -> Plan[list[RegisterView]]:
    """A page."""
    page = {"prefix": op.prefix, "end": end_of(op.prefix), "after": op.after, "limit": op.limit, "now": now}
    rows = yield Statement("registers.look", page)
    return [RegisterView(*row) for row in rows]


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {Amend: amend, LookRegisters: look}
