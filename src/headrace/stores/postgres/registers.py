"""Plans of registers. Nobody waits who changes nothing; who does, decides without a lock at first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Plan, Statement
from headrace.stores.registers import Amended, Rows, end_of

TRIES = 10  # looks at a register that is forgotten whenever we lock it


def amend(op: Amend, now: int | None) -> Plan[list[Any]]:
    """Look, let the changes decide, and write what they changed: at once, where nobody has written meanwhile."""
    names = sorted({change.register for change in op.changes})
    moment, found = _read((yield Statement("registers.found", {"now": now, "names": names}, alone=True)))
    amended = Amended(op.changes, found, moment)
    if amended.is_same or (yield from _swapped(amended, found)):
        return amended.answers
    return (yield from _amend_locked(op, names, found, now))


def _read(rows: Sequence[tuple[Any, ...]]) -> tuple[int, dict[str, tuple[bytes, int]]]:
    return rows[0][0], {name: (body, until) for _, name, body, until in rows if name is not None}


def _swapped(amended: Amended, found: Rows) -> Plan[bool]:
    """Whether it could be done in one statement: all are there, and stay, and are still what was found."""
    written = amended.written
    if amended.erased or not all(name in found for name, _, _ in written):
        return False
    old = [found[name] for name, _, _ in written]
    before = {"old_bodies": [body for body, _ in old], "old_untils": [until for _, until in old]}
    rows = yield Statement("registers.swap", _columns(written) | before, alone=True)
    return len(rows) == len(written)


def _columns(written: Sequence[tuple[str, bytes, int]]) -> dict[str, Any]:
    return {
        "names": [name for name, _, _ in written],
        "bodies": [body for _, body, _ in written],
        "untils": [until for _, _, until in written],
    }


def _amend_locked(op: Amend, names: Sequence[str], seen: Rows, now: int | None) -> Plan[list[Any]]:
    """The same with the registers locked, in the order of their names, those included that are not there yet."""
    found = seen
    for _ in range(TRIES):
        if missing := [name for name in names if name not in found]:
            yield Statement("registers.enter", {"names": missing})
        moment, found = _read((yield Statement("registers.locked", {"now": now, "names": names})))
        if len(found) == len(names):
            break
    else:
        raise StoreUnavailable(f"the registers {', '.join(names)} come and go too quickly")
    amended = Amended(op.changes, found, moment)
    if amended.written:
        yield Statement("registers.write", _columns(amended.written))
    if amended.erased:
        yield Statement("registers.erase", {"names": amended.erased})
    return amended.answers


def look(op: LookRegisters, now: int | None) -> Plan[list[RegisterView]]:
    """A page."""
    page = {"prefix": op.prefix, "end": end_of(op.prefix), "after": op.after, "limit": op.limit, "now": now}
    rows = yield Statement("registers.look", page, alone=True)
    return [RegisterView(*row) for row in rows]


PLANS: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {Amend: amend, LookRegisters: look}
