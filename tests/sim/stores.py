"""Stores for the simulator beside the reference model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.core.ports import Driver
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from headrace.testing.clock import VirtualClock
from tests.contract.stores import open_driver


def sqlite_store(directory: Path) -> Callable[[VirtualClock], Driver]:
    """A file of its own for each simulation."""
    return lambda clock: SQLiteDriver(directory / "jobs.db", SQLiteStore(now=clock))


def redis_store(url: str, name: str) -> Callable[[VirtualClock], Driver]:
    """Keys of its own for each simulation."""
    from headrace.drivers.redis import RedisDriver
    from headrace.stores.redis import RedisStore

    return lambda clock: RedisDriver(url, RedisStore(name=name, now=clock))


def database_store(kind: str, request: pytest.FixtureRequest) -> Callable[[VirtualClock], Driver]:
    """Tables of its own for each simulation."""
    return lambda clock: open_driver(kind, clock, request)
