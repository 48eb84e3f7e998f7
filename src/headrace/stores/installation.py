"""The plan that tells one database from another, the same for every SQL store."""

from __future__ import annotations

from headrace.core.transactions import Installation
from headrace.stores.plan import Plan, Statement


def installation(op: Installation, now: int | None) -> Plan[str | None]:
    """Two looks, of which none can fail."""
    if not (yield Statement("installation.is_there"))[0][0]:
        return None
    rows = yield Statement("installation.id")
    found = rows[0][0] if rows else None
    return found.decode() if isinstance(found, bytes) else found
