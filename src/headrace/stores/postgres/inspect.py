"""What the server's settings promise, and what keeps it from clearing away dead rows."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.stores.plan import Plan, Statement

OLDEST_SERVER = 140_000
LONG_S = 600  # a transaction as long as this keeps the dead rows of minutes
DEAD_ROWS = 50_000


def inspect(op: ops.Inspect, now: int | None) -> Plan[list[ops.Finding]]:
    """Version, durability, whether it is a standby, and what holds dead rows."""
    row = (yield Statement("inspect.settings", alone=True))[0]
    version, standby, fsync, full_pages, synchronous, counting = row
    longest, idle = (yield Statement("inspect.horizon", alone=True))[0]
    live, dead = (yield Statement("inspect.dead", alone=True))[0]
    slots = yield Statement("inspect.slots", alone=True)
    prepared = (yield Statement("inspect.prepared", alone=True))[0][0]
    return [
        _server(version),
        _role(standby=standby),
        _durability(fsync, full_pages, synchronous),
        _horizon(longest, idle),
        _dead_rows(live, dead, counting),
        _slots(slots),
        _prepared(prepared),
    ]


def _server(version: int) -> ops.Finding:
    name = f"PostgreSQL {version // 10000}.{version % 10000}"
    if version < OLDEST_SERVER:
        return ops.Finding("error", "server", f"{name} is too old", "upgrade it to PostgreSQL 14 or newer")
    return ops.Finding("ok", "server", name)


def _role(*, standby: bool) -> ops.Finding:
    if standby:
        return ops.Finding("error", "role", "the server is a standby and takes no writes", "connect to the primary")
    return ops.Finding("ok", "role", "primary")


def _durability(fsync: str, full_pages: str, synchronous: str) -> ops.Finding:
    if fsync == "off" or full_pages == "off":
        name = "fsync" if fsync == "off" else "full_page_writes"
        return ops.Finding(
            "error", "durability", f"{name} is off: a power cut may destroy the whole database", f"set {name} = on"
        )
    if synchronous == "off":
        text = "synchronous_commit is off: the last commits before a crash of the server may be lost"
        return ops.Finding("warning", "durability", text, "set synchronous_commit = on for this user or database")
    return ops.Finding(
        "ok", "durability", f"synchronous_commit is {synchronous}: what was acknowledged survives a crash"
    )


def _horizon(longest: int, idle: int) -> ops.Finding:
    text = f"the longest transaction lasts {longest} s, the longest idle one {idle} s"
    if max(longest, idle) >= LONG_S:
        return ops.Finding(
            "warning",
            "transactions",
            f"{text}: while it lasts no dead row goes, and claims slow down",
            "end it; set idle_in_transaction_session_timeout",
        )
    return ops.Finding("ok", "transactions", text)


def _dead_rows(live: int, dead: int, counting: str) -> ops.Finding:
    if counting == "off":
        text = "track_counts is off: the server does not know when to clear away dead rows"
        return ops.Finding("warning", "dead rows", text, "set track_counts = on")
    text = f"the table of waiting jobs has {dead} dead rows and {live} living ones"
    if dead > max(DEAD_ROWS, live):
        return ops.Finding("warning", "dead rows", text, "see whether autovacuum runs and what holds it up")
    return ops.Finding("ok", "dead rows", text)


def _slots(slots: list[tuple[str, bool]]) -> ops.Finding:
    idle = [name for name, active in slots if not active]
    if idle:
        return ops.Finding(
            "warning",
            "replication slots",
            f"nobody reads {', '.join(idle)}: logs pile up, and maybe dead rows",
            "drop what is not needed: select pg_drop_replication_slot(...)",
        )
    return ops.Finding("ok", "replication slots", f"{len(slots)} in use" if slots else "none")


def _prepared(count: int) -> ops.Finding:
    if count:
        text = f"{count} prepared transactions wait for their second phase"
        return ops.Finding("warning", "prepared transactions", text, "commit them or roll them back")
    return ops.Finding("ok", "prepared transactions", "none")
