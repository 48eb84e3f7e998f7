"""The write-ahead log is folded only while nobody can write: decision 0002."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver, checkpoint
from headrace.drivers.sqlite.checkpoint import Checkpointer, Log
from headrace.drivers.sqlite.connection import Connection
from headrace.stores.sqlite import SQLiteStore
from headrace.stores.sqlite.inspect import has_reset_fix
from tests.process.sqlite_processes import assert_sound
from tests.process.sqlite_roles import job


@pytest.fixture
def driver(sqlite_path: Path) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(sqlite_path, SQLiteStore())
    yield driver
    driver.close()


@pytest.fixture
def checkpointer(driver: SQLiteDriver) -> Iterator[Checkpointer]:
    driver.run(ops.Enqueue(tuple(job(f"{n}") for n in range(100))))
    checkpointer = Checkpointer(driver.path, driver.store.sql)
    yield checkpointer
    checkpointer.close()


@pytest.fixture
def guard(driver: SQLiteDriver) -> Iterator[Connection]:
    driver.run(ops.Prepare())
    guard = Connection(driver.path, driver.store.sql, writes=True)
    yield guard
    guard.close()


def test_no_connection_checkpoints_by_itself(driver: SQLiteDriver) -> None:
    """SQLite's own checkpoint runs beside other writers, which is where the WAL-reset bug strikes (B133)."""
    driver.run(ops.Enqueue((job("a"),)))
    driver.run(ops.Get("a"))
    session = driver._session()
    for connection in (session.write.connection, session.read.connection):
        assert connection is not None
        settings = [
            connection.raw.execute(f"pragma {name}").fetchone()[0]
            for name in ("wal_autocheckpoint", "journal_mode", "synchronous")
        ]
        assert settings == [0, "wal", 2]
        assert connection.raw.execute("pragma mmap_size").fetchone() in (None, (0,))


def test_a_fold_leaves_nothing_and_the_log_starts_anew(
    driver: SQLiteDriver, guard: Connection, checkpointer: Checkpointer
) -> None:
    before = Log(driver.path).frames()
    assert checkpointer.fold(guard)
    size = driver.path.with_name("jobs.db-wal").stat().st_size
    assert before == size // 4120
    driver.run(ops.Enqueue((job("next"),)))
    assert driver.path.with_name("jobs.db-wal").stat().st_size == size
    assert 0 < Log(driver.path).frames() < before


def test_a_fold_gives_way_to_a_writer(driver: SQLiteDriver, guard: Connection, checkpointer: Checkpointer) -> None:
    """Nothing is copied while another connection may write."""
    writer = sqlite3.connect(driver.path, isolation_level=None)
    writer.execute("begin immediate")
    before = driver.path.stat().st_mtime_ns
    assert not checkpointer.fold(guard)
    assert driver.path.stat().st_mtime_ns == before
    writer.execute("rollback")
    writer.close()
    assert checkpointer.fold(guard)
    assert driver.path.stat().st_mtime_ns > before


def test_nobody_writes_during_a_fold(driver: SQLiteDriver, guard: Connection, checkpointer: Checkpointer) -> None:
    """The guard's empty transaction holds the write lock from before the copy until after it."""
    seen: list[str] = []
    other = sqlite3.connect(driver.path, timeout=0, isolation_level=None)

    def look(statement: str) -> None:
        seen.append(statement.lower())
        if "wal_checkpoint" in statement.lower():
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("begin immediate")

    assert checkpointer.fold(guard)
    driver.run(ops.Enqueue((job("more"),)))
    assert checkpointer._second is not None
    checkpointer._second.raw.set_trace_callback(look)
    assert checkpointer.fold(guard)
    assert seen == ["pragma wal_checkpoint(passive)"]
    other.execute("begin immediate")
    other.execute("rollback")
    other.close()


def test_a_reader_holds_back_only_what_it_needs(
    driver: SQLiteDriver, guard: Connection, checkpointer: Checkpointer
) -> None:
    reader = sqlite3.connect(driver.path, isolation_level=None)
    reader.execute("begin")
    assert reader.execute("select count(*) from headrace_jobs").fetchone() == (100,)
    driver.run(ops.Enqueue((job("later"),)))
    assert not checkpointer.fold(guard)
    assert reader.execute("select count(*) from headrace_jobs").fetchone() == (100,)
    reader.execute("commit")
    reader.close()
    assert checkpointer.fold(guard)


def test_the_log_stays_short_under_load(driver: SQLiteDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LOG_FRAMES", 100)
    driver.run(ops.Queues())
    for number in range(1, 400):
        driver.run(ops.Enqueue(tuple(job(f"{number}-{n}") for n in range(10))))
        jobs = driver.run(ops.Claim("w", number, ("q",), 10, 10**6)).jobs
        outcomes = tuple(ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in jobs)
        assert driver.run(ops.Settle("w", outcomes)) == [True] * 10
    assert driver.path.with_name("jobs.db-wal").stat().st_size < 400 * 4120
    driver.close()
    assert not driver.path.with_name("jobs.db-wal").exists()
    assert_sound(driver.path)


def test_a_link_to_the_file_finds_the_same_log(tmp_path: Path, driver: SQLiteDriver) -> None:
    driver.run(ops.Enqueue((job("a"),)))
    link = tmp_path / "link.db"
    link.symlink_to(driver.path)
    through = SQLiteDriver(link, SQLiteStore())
    assert through.run(ops.Get("a")) is not None
    assert through.path == driver.path
    through.close()


@pytest.mark.parametrize(
    ("library", "fixed"),
    [
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.53.0", True),
        ("4.0.0", True),
    ],
)
def test_doctor_knows_which_libraries_have_the_bug(library: str, fixed: bool) -> None:
    assert has_reset_fix(library) is fixed


def test_doctor_says_what_holds(driver: SQLiteDriver) -> None:
    driver.run(ops.Enqueue((job("a"),)))
    findings = {finding.subject: finding for finding in driver.run(ops.Inspect())}
    assert findings.keys() == {"journal", "durability", "checkpoints", "integrity", "rows"}
    assert {findings[name].level for name in ("journal", "durability", "integrity", "rows")} == {"ok"}
    assert sqlite3.sqlite_version in findings["checkpoints"].text
    assert findings["checkpoints"].level == ("ok" if has_reset_fix(sqlite3.sqlite_version) else "info")


def test_the_log_of_a_file_that_took_the_place_of_another_is_folded(
    driver: SQLiteDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the log of the old one, for ever, while the new one's fills the disk."""
    monkeypatch.setattr(checkpoint, "LOG_FRAMES", 100)

    def fill(start: int) -> int:
        return max(fill_one(n) for n in range(start, start + 40))

    def fill_one(number: int) -> int:
        driver.run(ops.Enqueue(tuple(job(f"{number}-{n}") for n in range(400))))
        return Log(driver.path).frames()

    fill(0)
    inherited = driver._session()._checkpointer._second
    assert inherited is not None
    for suffix in ("", "-wal", "-shm"):
        driver.path.with_name(f"jobs.db{suffix}").rename(driver.path.with_name(f"old.db{suffix}"))
    assert fill(100) < 400
    second = driver._session()._checkpointer._second
    assert second is not None
    assert (second is not inherited, second.is_current()) == (True, True)
    assert driver.path.stat().st_size > 40 * 400 * 185
    driver.close()
    assert_sound(driver.path)


def test_a_log_is_folded_under_the_lock_of_its_own_file_only(
    driver: SQLiteDriver, guard: Connection, checkpointer: Checkpointer
) -> None:
    assert checkpointer.fold(guard)
    for suffix in ("", "-wal", "-shm"):
        driver.path.with_name(f"jobs.db{suffix}").rename(driver.path.with_name(f"old.db{suffix}"))
    driver.run(ops.Enqueue((job("new"),)))
    before = driver.path.stat().st_mtime_ns, Log(driver.path).frames()
    checkpointer.close()
    assert not checkpointer.fold(guard)
    assert (driver.path.stat().st_mtime_ns, Log(driver.path).frames()) == before


def test_a_connection_that_is_given_up_takes_the_folding_one_along(
    driver: SQLiteDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LOG_FRAMES", 1)
    for n in range(30):
        driver.run(ops.Enqueue((job(f"{n}"),)))
    session = driver._session()
    assert session._checkpointer._second is not None
    with session.write.lock:
        session.write._disconnect()
    assert session._checkpointer._second is None
    driver.run(ops.Enqueue((job("next"),)))
