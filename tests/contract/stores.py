"""Opens a fresh, empty store of each kind on a given clock, in one colour."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ports import Driver
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance import Harness, LoopThread
from tests.contract.kept import Keeper

DATABASES = ("postgres", "mysql")
POOLED = "pgbouncer"  # PostgreSQL behind PgBouncer in transaction mode
STORES = ("memory", "sqlite", "redis", "redis_slots", *DATABASES)  # redis_slots: one queue at a time, as on a cluster
COLOURS = ("sync", "async")


def open_driver(kind: str, clock: Callable[[], int], request: pytest.FixtureRequest, url: str = "") -> Any:
    """A driver on a store of its own: a new file, new keys, empty tables. May be called often in one test.

    `url`: another way to the server of a database.
    """
    if kind == "memory":
        return MemoryDriver(MemoryStore(now=clock))
    if kind in (*DATABASES, POOLED):
        return _on_tables(kind, clock, request, url)
    name = f"t{uuid.uuid4().hex[:15]}"
    if kind == "sqlite":
        from headrace.drivers.sqlite import SQLiteDriver
        from headrace.stores.sqlite import SQLiteStore

        directory: Path = request.getfixturevalue("quick_directory")
        return SQLiteDriver(str(directory / f"{name}.db"), SQLiteStore(now=clock))
    from headrace.drivers.redis import RedisDriver
    from headrace.stores.redis import RedisStore

    return RedisDriver(
        request.getfixturevalue("redis_url"), RedisStore(name=name, now=clock, cluster=kind == "redis_slots")
    )


def _on_tables(kind: str, clock: Callable[[], int], request: pytest.FixtureRequest, url: str) -> Any:
    """A driver that gives its tables back when it is closed; without a `url` of the test's own, with itself."""
    keeper: Keeper = request.getfixturevalue("mysql_keeper" if kind == "mysql" else "postgres_keeper")
    way = url or request.getfixturevalue(f"{kind}_url")
    make_driver, make_store = _classes(kind)
    if not url:
        return keeper.lend(way, lambda prefix: make_driver(way, make_store(clock, prefix)), partial(make_store, clock))
    prefix, give_back = keeper.prefixes.lend()
    driver = make_driver(url, make_store(clock, prefix))
    close = driver.close

    def close_and_give_back() -> None:
        close()
        give_back()

    driver.close = close_and_give_back
    return driver


def _classes(kind: str) -> tuple[Any, Any]:
    if kind == "mysql":
        from headrace.drivers.mysql import MySQLDriver
        from headrace.stores.mysql import MySQLStore

        return MySQLDriver, MySQLStore
    from headrace.drivers.postgres import PostgresDriver
    from headrace.stores.postgres import PostgresStore

    return PostgresDriver, PostgresStore


@contextmanager
def in_colour(driver: Driver, colour: str) -> Iterator[Callable[[Any], Any]]:
    """`run` of the driver, closed at the end."""
    try:
        if colour == "sync":
            yield driver.run
        elif kept := getattr(driver, "kept", None):
            yield kept.loop().run
        else:
            loop = LoopThread(driver)
            try:
                yield loop.run
            finally:
                loop.close()
    finally:
        driver.close()


@contextmanager
def open_harness(kind: str, colour: str, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A harness around a fresh store."""
    clock = VirtualClock()
    with in_colour(open_driver(kind, clock, request), colour) as run:
        yield Harness(run, clock)
