"""The plan that brings the schema up to date."""

from __future__ import annotations

from headrace.errors import StoreMisconfigured
from headrace.stores.plan import Plan, Statement


def prepare(migrations: list[str]) -> Plan[None]:
    """Look, and where something is missing, take the lock, look again, and carry out the migrations.

    A schema that is there needs no rights but to use it. One that is newer than this code is used as long as it says
    that this code may, so that old workers run on while a deploy is under way.

    Raises:
        StoreMisconfigured: the schema is too new for this headrace.
    """
    known = max(_version(name) for name in migrations)
    if (yield from _look(known)) >= known:
        return
    yield Statement("schema.lock")
    there = yield from _look(known)
    for name in migrations:
        if _version(name) > there:
            yield Statement(name)
    if there < known:
        yield Statement("schema.set_version", {"version": str(known)})


def _look(known: int) -> Plan[int]:
    """The version of the schema; 0 where there is none."""
    if not (yield Statement("schema.there", alone=True))[0][0]:
        return 0
    versions = {name: int(value) for name, value in (yield Statement("schema.versions", alone=True))}
    oldest = versions.get("oldest", 0)
    if oldest > known:
        raise StoreMisconfigured(
            f"the database's schema has version {versions['schema']} and needs code that knows {oldest}, this headrace "
            f"knows {known}: upgrade it, or use another database or name"
        )
    return versions.get("schema", 0)


def _version(name: str) -> int:
    """Of `0001_jobs.entry`."""
    return int(name.partition("_")[0])
