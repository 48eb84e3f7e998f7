"""What becomes of those who wait in a lane when the file stays locked, or somebody presses Ctrl-C."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver, lane
from headrace.drivers.sqlite.connection import Connection
from headrace.errors import StoreUnavailable
from headrace.stores.sqlite import SQLiteStore
from tests.process.sqlite_roles import job
from tests.waiting import wait_until


@pytest.fixture
def driver(sqlite_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteDriver]:
    monkeypatch.setattr(lane, "GROUP_S", 10.0)  # on a busy machine 5 ms may be too short for a whole group
    driver = SQLiteDriver(sqlite_path, SQLiteStore(), busy_timeout=0.2)
    yield driver
    driver.close()


def enqueue(id: str) -> ops.Enqueue:
    return ops.Enqueue((job(id),))


def test_callers_of_a_locked_file_give_up_together(driver: SQLiteDriver) -> None:
    """Each after its own `busy_timeout`, not one after the other: the last of twenty would wait for twenty of them."""
    driver.run(enqueue("a"))
    other = sqlite3.connect(driver.path, isolation_level=None)
    other.execute("begin immediate")
    waited: list[float] = []

    def produce(number: int) -> None:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked"):
            driver.run(enqueue(f"{number}"))
        waited.append(time.monotonic() - began)

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.execute("rollback")
    other.close()
    assert len(waited) == 20
    assert 0.2 <= min(waited) <= max(waited) < 10 * 0.2
    assert driver.run(enqueue("b"))[0].status == "new"


class InterruptedCommits:
    """A connection of the sqlite3 module; a Ctrl-C arrives while it commits."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Python notices only when SQLite is done."""
        cursor = self._raw.execute(sql, *parameters)
        if sql == "commit":
            raise KeyboardInterrupt
        return cursor


def test_an_interrupted_commit_is_unknown(driver: SQLiteDriver) -> None:
    """Who is told that it was undone may take the job for lost."""
    driver.run(enqueue("a"))
    session = driver._session()
    waiting = lane.Item(enqueue("b"), driver._work(enqueue("b")))
    session.write._waiting.append(waiting)
    writer: Any = session.write.connection
    raw, writer.raw = writer.raw, InterruptedCommits(writer.raw)
    with pytest.raises(KeyboardInterrupt):
        driver.run(enqueue("c"))
    writer.raw = raw
    assert waiting.done
    with pytest.raises(StoreUnavailable, match="whether the operation took place is unknown"):
        waiting.result()
    assert [view.id for view in driver.run(ops.List(State.READY)).jobs] == ["a", "b", "c"]


def test_what_is_interrupted_before_its_commit_is_undone(driver: SQLiteDriver) -> None:
    driver.run(enqueue("a"))
    session = driver._session()
    waiting = lane.Item(enqueue("b"), driver._work(enqueue("b")))
    session.write._waiting.append(waiting)

    def interrupted(connection: Connection) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.write.run(None, interrupted)
    with pytest.raises(StoreUnavailable, match="undone"):
        waiting.result()
    assert [view.id for view in driver.run(ops.List(State.READY)).jobs] == ["a"]


def test_who_looks_after_a_commit_sees_it_also_while_others_look(driver: SQLiteDriver) -> None:
    """They see the file as it was when they began."""
    driver.run(enqueue("a"))
    reading, over = threading.Event(), threading.Event()
    seen: list[ops.JobView | None] = []

    def look_long(connection: Connection) -> None:
        assert connection.raw.execute("select count(*) from headrace_jobs").fetchone() == (1,)
        reading.set()
        assert over.wait(20)

    def produce() -> None:
        driver.run(enqueue("b"))
        seen.append(driver.run(ops.Get("b")))

    lane_of_readers = driver._session().read
    threads = [threading.Thread(target=lane_of_readers.run, args=(None, look_long)), threading.Thread(target=produce)]
    threads[0].start()
    assert reading.wait(20)
    threads[1].start()
    wait_until(lambda: lane_of_readers._waiting)
    over.set()
    for thread in threads:
        thread.join()
    assert [view.id for view in seen if view is not None] == ["b"]
