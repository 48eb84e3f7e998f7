"""Registers: read, changed here, and written only where all of them are still as they were read.

They are in no queue, so they share a slot of a cluster.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.common import Common
from headrace.stores.redis.records import digits

_UNTIL = 18  # digits before the content


class _Register(msgspec.Struct, frozen=True, gc=False):
    """One as it stands there."""

    until_us: int
    body: bytes


def _read(entry: bytes | None, now_us: int) -> _Register | None:
    """None where there is nothing, or it is over, or another program has written what cannot be read."""
    if entry is None or len(entry) < _UNTIL or not entry[:_UNTIL].isdigit():
        return None
    register = _Register(int(entry[:_UNTIL]), entry[_UNTIL:])
    return register if register.until_us > now_us else None


def amend(store: Common, op: Amend) -> Plan[list[Any]]:
    """One call where nothing changes, else two, and one more each time that somebody else was quicker."""
    names = list(dict.fromkeys(change.register for change in op.changes))
    if not names:
        return []
    head = (str(len(names)), *names)
    now, seen = yield Call("amend", store.keys.registers, (store.moment(), *head))
    while True:
        answers, wanted = _apply(op, dict(zip(names, seen, strict=True)), int(now))
        if wanted == seen:
            return answers
        args: list[Any] = [store.moment(), *head]
        args += [_marked(entry) for entry in seen]
        args += [b"=" if entry == before else _marked(entry) for entry, before in zip(wanted, seen, strict=True)]
        answer = yield Call("amend", store.keys.registers, tuple(args))
        if answer == 1:
            return answers
        now, seen = answer


def _apply(op: Amend, entries: dict[str, bytes | None], now_us: int) -> tuple[list[Any], list[bytes | None]]:
    """The answers, and what is to stand there, in the order of `entries`."""
    answers = []
    for change in op.changes:
        register = _read(entries[change.register], now_us)
        body = register.body if register else None
        changed = change.apply(body, now_us)
        answers.append(changed.answer)
        if changed.body is None:
            entries[change.register] = None
        elif changed.body != body:
            entries[change.register] = digits(now_us + changed.keep_us) + changed.body
    return answers, list(entries.values())


def _marked(entry: bytes | None) -> bytes:
    return b"-" if entry is None else b"+" + entry


def look(store: Common, op: LookRegisters) -> Plan[list[RegisterView]]:
    """Names in their order. Of those that are not text none is a register of ours, nor could one go on behind it."""
    prefix, after = op.prefix.encode(), op.after.encode()
    first = b"(" + after if after and after >= prefix else b"[" + prefix
    found: list[RegisterView] = []
    while len(found) < op.limit:
        size = min(BATCH, op.limit - len(found))
        args = (store.moment(), first, b"(" + prefix + b"\xff", str(size))
        now, names, entries = yield Call("look_registers", store.keys.registers, args)
        for name, entry in zip(names, entries, strict=True):
            register = _read(entry, int(now))
            if register is not None and _is_text(name):
                found.append(RegisterView(name.decode(), register.body, register.until_us))
        if len(names) < size:
            break
        first = b"(" + names[-1]
    return found


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
