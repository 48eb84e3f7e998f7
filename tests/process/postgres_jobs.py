"""A driver on PostgreSQL tables of the test's own, and a plain connection beside it for what other programs do."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from headrace.drivers.postgres import PostgresDriver
from headrace.stores.postgres import PostgresStore
from tests.waiting import wait_until

Beside = Callable[[Any], "Future[Any]"]


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


@contextmanager
def waiting_beside(driver: PostgresDriver, url: str, name: str, threads: int = 1) -> Iterator[Beside]:
    """Begin an operation in another thread, and come back when it waits for a lock. `name`: that of its sessions."""
    waiting = "select count(*) from pg_locks as l join pg_stat_activity as a using (pid) where not l.granted and "

    def begin(operation: Any) -> "Future[Any]":
        begun = pool.submit(driver.run, operation)
        wait_until(lambda: ask(url, waiting + "a.application_name = %s", name))
        return begun

    with ThreadPoolExecutor(threads) as pool:
        yield begin
