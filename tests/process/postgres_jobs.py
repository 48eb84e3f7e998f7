"""A driver on PostgreSQL tables of the test's own, and a plain connection beside it for what other programs do."""

from typing import Any

import psycopg

from headrace.drivers.postgres import PostgresDriver
from headrace.stores.postgres import PostgresStore


def open_driver(url: str, name: str, options: str = "", **store: Any) -> PostgresDriver:
    """`options` of the URL, as `timeout=1&pool_size=2`."""
    return PostgresDriver(f"{url}?{options}" if options else url, PostgresStore(prefix=f"{name}_", **store))


def plain(url: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Another program's connection."""
    return psycopg.connect(url)


def ask(url: str, query: str, *params: object) -> Any:
    """The first value of the answer, on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode(), params).fetchone()
    return row[0] if row else None
