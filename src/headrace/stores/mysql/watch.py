"""Plans of a worker that waits for work, on a connection of its own. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.stores.mysql.text import listed, raw
from headrace.stores.plan import Plan, Statement


class Watch:
    """What a wake-up asks about some queues."""

    def __init__(self, queues: Sequence[str], now: int | None) -> None:
        names = sorted(set(queues))
        self._group = listed(names)
        self._look = {"queues": [raw(name) for name in names] or [b""], "now": now}

    def enter(self) -> Plan[bool]:
        """Wait for a second for the turn to look; whether it has come."""
        rows = yield Statement("watch.enter", {"group": self._group})
        return bool(rows[0][0] == 1)

    def look(self) -> Plan[bool]:
        """Whether there is something to claim."""
        rows = yield Statement("watch.look", self._look)
        return bool(rows[0][0])

    def leave(self) -> Plan[None]:
        """Let the next one look."""
        yield Statement("watch.leave", {"group": self._group})
