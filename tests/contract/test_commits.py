"""Where a store has transactions, the commit itself is cut: before it, so nothing happened; after it, so all did."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.errors import StoreUnavailable
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance import Harness
from tests.contract.stores import open_driver
from tests.contract.test_crash_points import reference, see
from tests.contract.world import World, operations

WRITES = [name for name, operation in operations(reference()) if operation.writes]


class CutCommits:
    """A connection of the sqlite3 module whose next commit fails, having happened or not."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.moment = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """As the real one, but for the commit."""
        moment = self.moment
        if sql.lower() != "commit" or not moment:
            return self._raw.execute(sql, *parameters)
        self.moment = ""
        if moment == "after":
            self._raw.execute(sql)
        error = sqlite3.OperationalError(f"disk I/O error {moment} the commit")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error


@contextmanager
def cut(request: pytest.FixtureRequest, name: str, moment: str) -> Iterator[tuple[Harness, Any]]:
    """A world on SQLite where the commit of one operation has just been cut."""
    clock = VirtualClock()
    driver = open_driver("sqlite", clock, request)
    harness = Harness(driver.run, clock)
    try:
        operation = dict(operations(World(harness)))[name]
        writer = driver._current.write.connection
        writer.raw = cutter = CutCommits(writer.raw)
        cutter.moment = moment
        with pytest.raises(StoreUnavailable):
            driver.run(operation)
        assert cutter.moment == ""
        yield harness, operation
    finally:
        driver.close()


@pytest.mark.parametrize("name", WRITES)
def test_a_cut_commit_is_all_or_nothing(name: str, request: pytest.FixtureRequest) -> None:
    """And repeating the operation ends as if all had gone well."""
    model = reference().harness
    before = see(model)
    model.run(dict(operations(reference()))[name])
    after = see(model)
    for moment, expected in (("before", before), ("after", after)):
        with cut(request, name, moment) as (harness, operation):
            assert see(harness) == expected, moment
            harness.run(operation)
            assert see(harness) == after, moment
