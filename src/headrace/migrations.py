"""The statements that make or change headrace's tables, for those whose own migrations carry them out."""

from __future__ import annotations

from typing import Literal

from headrace.errors import ConfigError
from headrace.stores import statements as named
from headrace.stores.schema import HOLD, LOST

Database = Literal["sqlite", "postgresql", "mysql"]

_STORES: dict[str, Database] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
}
_PACKAGES: dict[Database, str] = {
    "sqlite": "headrace.stores.sqlite",
    "postgresql": "headrace.stores.postgres",
    "mysql": "headrace.stores.mysql",
}


def database_of(url: str) -> Database | None:
    """Which kind of database a store's URL names; None for a store without a schema, such as Redis."""
    return _STORES.get(url.partition("://")[0])


def latest(database: str) -> int:
    """The version of the schema that this headrace knows."""
    return max(map(named.version_of, named.migrations(_package(database), named.DEFAULT_PREFIX)))


def statements(
    database: str, *, name: str = "headrace", from_version: int = 0, to_version: int | None = None
) -> list[str]:
    """The SQL that leads from one version of the schema to another, one statement each, without semicolons.

    `database` is `sqlite`, `postgresql`, `mysql` or `mariadb`; `name` is that of the app, which begins the names of
    tables. Version 0 is no schema; `to_version` is by default the newest one. The way back deletes tables with all that
    is in them, and does not ask: `headrace schema downgrade` does.

    Carry them out in one transaction, where the database has that for DDL, and with no headrace upgrading meanwhile.

    Raises:
        ConfigError: an unknown database or version, or a name that no table can have.
    """
    package, known = _package(database), latest(database)
    to = known if to_version is None else to_version
    for version in (from_version, to):
        if not 0 <= version <= known:
            raise ConfigError(f"there is no version {version} of the schema: use 0 to {known}")
    load = named.migrations if to >= from_version else named.downgrades
    low, high = sorted((from_version, to))
    return [
        text
        for step, text in load(package, f"{name}_").items()
        if low < named.version_of(step) <= high and not step.endswith((HOLD, LOST))
    ]


def _package(database: str) -> str:
    if database not in _STORES:
        raise ConfigError(f"{database!r} is no database that headrace has a schema for: use {', '.join(_PACKAGES)}")
    return _PACKAGES[_STORES[database]]
