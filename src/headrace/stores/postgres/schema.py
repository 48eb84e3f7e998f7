"""How the schema is looked at and guarded here. A downgrade waits for whoever uses the tables that it takes away."""

from __future__ import annotations

from headrace.stores.plan import Plan, Statement
from headrace.stores.schema import Facts


def look() -> Plan[Facts]:
    """Two reads, complete in themselves: most often nothing else follows."""
    if not (yield Statement("schema.there", alone=True))[0][0]:
        return Facts()
    facts = {name: int(value) for name, value in (yield Statement("schema.versions", alone=True))}
    return Facts(facts.get("schema", 0), facts.get("oldest", 0))


def lock() -> Plan[None]:
    """One process at a time, until the end of the transaction."""
    yield Statement("schema.patience")
    yield Statement("schema.lock")
