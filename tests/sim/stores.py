"""Stores for the simulator beside the reference model."""

from collections.abc import Callable
from pathlib import Path

from headrace.core.ports import Driver
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from headrace.testing.clock import VirtualClock


def sqlite_store(directory: Path) -> Callable[[VirtualClock], Driver]:
    """A file of its own for each simulation."""
    return lambda clock: SQLiteDriver(directory / "jobs.db", SQLiteStore(now=clock))
