"""Registers of the model."""

from __future__ import annotations

from headrace.core.registers import Amend, LookRegisters, RegisterView


class Registers:
    """Name -> (content, when it is forgotten)."""

    def __init__(self) -> None:
        self._registers: dict[str, tuple[bytes, int]] = {}

    def amend(self, op: Amend, now: int) -> list[object]:
        """Apply the changes, all or none."""
        rows, answers = dict(self._registers), []
        for change in op.changes:
            body, until = rows.get(change.register, (None, 0))
            body = body if until > now else None
            changed = change.apply(body, now)
            answers.append(changed.answer)
            if changed.body is None:
                rows.pop(change.register, None)
            elif changed.body != body:
                rows[change.register] = (changed.body, now + changed.keep_us)
        self._registers = rows
        return answers

    def look(self, op: LookRegisters, now: int) -> list[RegisterView]:
        """Those that are not forgotten."""
        views = [
            RegisterView(name, body, until)
            for name, (body, until) in sorted(self._registers.items())
            if name.startswith(op.prefix) and name > op.after and until > now
        ]
        return views[: op.limit]

    def prune(self, limit: int, now: int) -> bool:
        """Forget those whose time is over; whether some are left."""
        over = [name for name, (_, until) in self._registers.items() if until <= now]
        for name in over[:limit]:
            del self._registers[name]
        return len(over) > limit
