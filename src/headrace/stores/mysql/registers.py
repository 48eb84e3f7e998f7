"""Plans of registers. Nobody waits who changes nothing; who does, decides once more when the registers are locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.stores.mysql.text import fitting, is_text, light_steps, raw, steps
from headrace.stores.plan import Plan, Statement
from headrace.stores.registers import Amended, end_of

OVER = (0, b"")  # the end and the content of a register that is there to be locked

Found = dict[str, tuple[bytes, int]]


def amend(op: Amend, override: int | None) -> Plan[list[Any]]:
    """Look, let the changes decide, and where they would change anything, lock, look again, and write what they do."""
    names = sorted({fitting("register", change.register) for change in op.changes})
    found: Found = {}
    now = override
    for some in steps(names or [b""]):
        rows = yield Statement("registers.found", {"now": now, "names": some}, alone=True)
        now = max(row[0] for row in rows)
        found |= _read(rows)
    amended = Amended(op.changes, found, now or 0)
    return amended.answers if amended.is_same else (yield from _amend_locked(op, names, override))


def _read(rows: Sequence[tuple[Any, ...]]) -> Found:
    return {name.decode(): (body, until) for _, name, until, body in rows if name is not None}


def _amend_locked(op: Amend, names: Sequence[bytes], override: int | None) -> Plan[list[Any]]:
    found: Found = {}
    now = override or 0
    for some in steps(names):
        yield Statement("registers.enter", many=[(name, *OVER) for name in some], mute=True)
        rows = yield Statement("registers.locked", {"now": override, "names": some})
        now = rows[0][0]
        found |= _read(rows)
    amended = Amended(op.changes, found, now)
    rows = [(name.encode(), until, body) for name, body, until in amended.written]
    for light in light_steps(rows):
        yield Statement("registers.write", many=light, mute=True)
    yield from _erase([name.encode() for name in amended.erased])
    return amended.answers


def _erase(names: Sequence[bytes]) -> Plan[None]:
    for some in steps(sorted(names)):
        yield Statement("registers.erase", {"names": some}, mute=True)


def look(op: LookRegisters, now: int) -> Plan[list[RegisterView]]:
    """A page. A name that another program wrote and that is no text is left out: nobody could ask for it."""
    end = end_of(op.prefix)
    page = {"prefix": raw(op.prefix), "end": None if end is None else raw(end), "after": raw(op.after)}
    rows = yield Statement("registers.look", page | {"limit": op.limit, "now": now})
    return [RegisterView(name.decode(), body, until) for name, body, until in rows if is_text(name)]


def forget(now: int, limit: int) -> Plan[None]:
    """Delete those whose time is over, the oldest first."""
    yield from _erase([name for (name,) in (yield Statement("registers.old", {"now": now, "limit": limit}))])
