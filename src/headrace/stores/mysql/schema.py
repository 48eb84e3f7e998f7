"""How the schema is looked at and guarded here: DDL commits by itself, so each of its steps can be repeated."""

from __future__ import annotations

from headrace.errors import StoreUnavailable
from headrace.stores.mysql.text import text
from headrace.stores.plan import Plan, Statement
from headrace.stores.schema import Facts

LOCK_ATTEMPTS = 30  # of two seconds each


def look() -> Plan[Facts]:
    """No version is none, or only its beginnings."""
    if not (yield Statement("moment.tables"))[0][0]:
        return Facts()
    facts = {text(name): int(value) for name, value in (yield Statement("moment.version"))}
    return Facts(facts.get("schema", 0), facts.get("oldest", 0))


def lock() -> Plan[None]:
    """One process at a time.

    Raises:
        StoreUnavailable: another process has been changing the schema for a minute.
    """
    for _ in range(LOCK_ATTEMPTS):
        got = yield Statement("moment.lock")
        if got[0][0] == 1:
            return
    raise StoreUnavailable("another process has been changing the schema for a minute: try again")


def unlock() -> Plan[None]:
    """Let the tables go that a downgrade held, and others have their turn."""
    yield Statement("moment.let_go")
    yield Statement("moment.unlock")
