"""Plans of the schema: versioned steps, one process at a time, each repeatable after a crash between two."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import StoreMisconfigured, StoreUnavailable
from headrace.stores.plan import Plan, Statement

LOCK_ATTEMPTS = 30  # of two seconds each


def prepare(migrations: Sequence[str]) -> Plan[None]:
    """Bring the schema up to date; where it is, only look.

    Raises:
        StoreMisconfigured: the schema is newer than this headrace.
        StoreUnavailable: another process has been changing the schema for a minute.
    """
    known = max(map(version_of, migrations))
    if _checked((yield from installed()), known) == known:
        return
    yield from _lock()
    try:
        version = _checked((yield from installed()), known)  # another process may have been quicker
        for name in migrations:
            if version_of(name) > version:
                yield Statement(name)
        if version < known:
            yield Statement("moment.set_version", {"version": str(known).encode()})
    finally:
        yield Statement("moment.unlock")


def installed() -> Plan[int]:
    """The schema's version; 0 where there is none, or only its beginnings."""
    tables = yield Statement("moment.tables")
    if not tables[0][0]:
        return 0
    rows = yield Statement("moment.version")
    return int(rows[0][0]) if rows else 0


def _checked(version: int, known: int) -> int:
    if version > known:
        raise StoreMisconfigured(
            f"the database's schema has version {version}, this headrace knows {known}: upgrade it, or use another name"
        )
    return version


def _lock() -> Plan[None]:
    for _ in range(LOCK_ATTEMPTS):
        got = yield Statement("moment.lock")
        if got[0][0] == 1:
            return
    raise StoreUnavailable("another process has been changing the schema for a minute: try again")


def version_of(name: str) -> int:
    """Of `0001_jobs.entry`."""
    return int(name.partition("_")[0])
