"""The SQLite driver by itself: grouped commits, errors in words, bad places, files that are swapped."""

import asyncio
import logging
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver, lane
from headrace.drivers.sqlite.problems import NETWORK, deepest_mount
from headrace.errors import (
    ConfigError,
    HeadraceError,
    InvalidArguments,
    StoreFull,
    StoreMisconfigured,
    StoreUnavailable,
)
from headrace.stores.sqlite import SQLiteStore
from tests.process.sqlite_processes import assert_sound, needs_fork
from tests.process.sqlite_roles import job
from tests.waiting import await_until


@pytest.fixture
def driver(sqlite_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLiteDriver]:
    monkeypatch.setattr(lane, "GROUP_S", 10.0)  # on a busy machine 5 ms may be too short for a whole group
    driver = SQLiteDriver(sqlite_path, SQLiteStore(), busy_timeout=0.2)
    yield driver
    driver.close()


def enqueue(*ids: str) -> ops.Enqueue:
    return ops.Enqueue(tuple(map(job, ids)))


def statements_of(driver: SQLiteDriver) -> list[str]:
    """What the write connection is told from now on."""
    driver.run(ops.Prepare())
    connection = driver._session().write.connection
    assert connection is not None
    told: list[str] = []
    connection.raw.set_trace_callback(told.append)
    return told


# -- group commit


async def test_operations_that_wait_share_one_commit(driver: SQLiteDriver) -> None:
    told = statements_of(driver)
    with driver._session().write.lock:
        tasks = [asyncio.create_task(driver.arun(enqueue(f"{n}"))) for n in range(20)]
        await await_until(lambda: len(driver._session().write._waiting) == 20)
    answers = await asyncio.gather(*tasks)
    assert answers == [[ops.Enqueued("new", f"{n}")] for n in range(20)]
    assert [statement for statement in told if statement in ("begin immediate", "commit")] == [
        "begin immediate",
        "commit",
    ]
    assert len(driver.run(ops.List(State.READY)).jobs) == 20


async def test_an_error_hits_its_own_caller_only(driver: SQLiteDriver) -> None:
    told = statements_of(driver)
    with driver._session().write.lock:
        tasks = [asyncio.create_task(driver.arun(enqueue(id))) for id in ("a", "bad\0", "c", "also bad\0", "e")]
        await await_until(lambda: len(driver._session().write._waiting) == 5)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(answer, InvalidArguments) for answer in answers] == [False, True, False, True, False]
    assert told.count("commit") == 1
    assert [view.id for view in driver.run(ops.List(State.READY)).jobs] == ["a", "c", "e"]


async def test_an_error_of_the_first_leaves_the_others(driver: SQLiteDriver) -> None:
    with driver._session().write.lock:
        tasks = [asyncio.create_task(driver.arun(enqueue(id))) for id in ("bad\0", "b")]
        await await_until(lambda: len(driver._session().write._waiting) == 2)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[0], InvalidArguments)
    assert answers[1] == [ops.Enqueued("new", "b")]


async def test_a_cancelled_caller_leaves_its_operation_to_finish(driver: SQLiteDriver) -> None:
    with driver._session().write.lock:
        task = asyncio.create_task(driver.arun(enqueue("a")))
        await await_until(lambda: len(driver._session().write._waiting) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await await_until(lambda: driver.run(ops.Get("a")))
    assert await driver.arun(enqueue("a")) == [ops.Enqueued("exists", "a")]


def test_threads_share_one_driver(driver: SQLiteDriver) -> None:
    answers: list[str] = []

    def produce(name: str) -> None:
        answers.extend(driver.run(enqueue(f"{name}{n}"))[0].status for n in range(50))

    threads = [threading.Thread(target=produce, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["new"] * 400


async def test_a_long_look_holds_up_no_writer(driver: SQLiteDriver) -> None:
    """Readers have a connection of their own."""
    driver.run(enqueue("a"))
    with driver._session().read.lock:
        assert await driver.arun(enqueue("b")) == [ops.Enqueued("new", "b")]
    assert len((await driver.arun(ops.List(State.READY))).jobs) == 2


# -- errors in words


def test_a_lock_that_stays_is_an_outage(driver: SQLiteDriver) -> None:
    """B132: for as long as `busy_timeout` we wait; then the caller is told, and may repeat."""
    driver.run(enqueue("a"))
    other = sqlite3.connect(driver.path, isolation_level=None)
    other.execute("begin immediate")
    words = (
        r"locked by another writer .* hung process may hold it, or an open transaction of this very process; .* name it"
    )
    with pytest.raises(StoreUnavailable, match=rf"{words}: using\(transaction=\.\.\.\)"):
        driver.run(enqueue("b"))
    assert driver.run(ops.Get("a")) is not None
    other.execute("rollback")
    other.close()
    assert driver.run(enqueue("b"))[0].status == "new"


def test_a_full_file_takes_all_or_nothing(driver: SQLiteDriver) -> None:
    driver.run(enqueue("a"))
    connection = driver._session().write.connection
    assert connection is not None
    connection.raw.execute("pragma max_page_count = 60")
    with pytest.raises(StoreFull, match="nothing was enqueued"):
        driver.run(ops.Enqueue(tuple(ops.NewJob(f"{n}", "q", "t", bytes(10_000)) for n in range(100))))
    assert [view.id for view in driver.run(ops.List(State.READY)).jobs] == ["a"]
    assert driver.run(enqueue("b"))[0].status == "new"
    assert_sound(driver.path)


def refused(path: Path, error: type[HeadraceError], words: str) -> None:
    driver = SQLiteDriver(path, SQLiteStore())
    for operation in (enqueue("a"), ops.Get("a")):
        with pytest.raises(error, match=words):
            driver.run(operation)
    driver.close()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 1000)
    refused(path, StoreMisconfigured, "not a SQLite database")
    assert path.read_text().startswith("Dear Sir")


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "no" / "jobs.db", StoreMisconfigured, r"the directory .*no does not exist: create it")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    refused(tmp_path, StoreMisconfigured, "is a directory: name a file in it")


def test_a_file_of_a_newer_headrace_is_left_alone(driver: SQLiteDriver) -> None:
    driver.run(enqueue("a"))
    driver.close()
    other = sqlite3.connect(driver.path)
    other.execute("update headrace_meta set value = 99 where name in ('schema', 'oldest')")
    other.commit()
    other.close()
    refused(driver.path, StoreMisconfigured, "schema of the database has version 99")


@pytest.mark.parametrize(
    "foreign",
    [
        "create table headrace_jobs (id integer)",
        "create table headrace_meta (name)",
        "create view headrace_gone as select 1",
    ],
)
def test_a_file_with_tables_of_our_names_is_left_alone(driver: SQLiteDriver, foreign: str) -> None:
    other = sqlite3.connect(driver.path)
    other.execute(foreign)
    there = other.execute("select name, sql from sqlite_master").fetchall()
    refused(
        driver.path, StoreMisconfigured, rf"the file has a {there[0][0]} that is not of headrace: choose another name="
    )
    assert other.execute("select name, sql from sqlite_master").fetchall() == there
    other.close()
    beside = SQLiteDriver(driver.path, SQLiteStore(prefix="jobs_"))
    assert beside.run(enqueue("a"))[0].status == "new"
    beside.close()


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A directory of somebody whom permissions stop; they do not stop root."""
    with tempfile.TemporaryDirectory() as name:
        user = os.geteuid()
        Path(name).chmod(0o777)
        if user == 0:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            os.seteuid(user)


@needs_fork
@pytest.mark.parametrize("locked", ["directory", "file"])
def test_a_path_that_cannot_be_written_is_named(ordinary_user: Path, locked: str) -> None:
    directory = ordinary_user / "data"
    directory.mkdir()
    driver = SQLiteDriver(directory / "jobs.db", SQLiteStore())
    driver.run(enqueue("a"))
    driver.close()
    place, mode = (directory, 0o555) if locked == "directory" else (driver.path, 0o444)
    place.chmod(mode)
    refused(driver.path, StoreMisconfigured, f"{place} cannot be written: give this user write access to it")
    place.chmod(0o755)


def test_a_network_file_system_is_found_by_its_mount() -> None:
    """B133: SQLite's locks do not hold between machines."""
    mounts = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv/shared rw - nfs4 server:/export rw
31 30 8:2 / /srv/shared/local\\040disk rw - xfs /dev/sdb rw
32 22 0:41 / /srv/sharedness rw - tmpfs tmpfs rw
"""
    found = [
        deepest_mount(mounts, Path(path))
        for path in ("/srv", "/srv/shared", "/srv/shared/a/b", "/srv/shared/local disk/x", "/srv/sharedness")
    ]
    assert found == ["ext4", "nfs4", "nfs4", "xfs", "tmpfs"]
    assert "nfs4" in NETWORK
    assert not NETWORK & {"ext4", "xfs", "tmpfs", "overlay", "btrfs", ""}


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_database_of_one_connection_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="memory://"):
        SQLiteDriver(path, SQLiteStore())


# -- the file


def test_a_file_that_is_swapped_is_opened_anew(driver: SQLiteDriver, caplog: pytest.LogCaptureFixture) -> None:
    """The old handle must not take away the log of the new file, which has its name."""
    driver.run(enqueue("a"))
    driver.run(ops.Get("a"))
    other = SQLiteDriver(driver.path.with_name("other.db"), SQLiteStore())
    other.run(enqueue("b"))
    other.close()
    for name in ("jobs.db-wal", "jobs.db-shm"):
        driver.path.with_name(name).unlink()
    other.path.replace(driver.path)
    with caplog.at_level(logging.WARNING, "headrace.sqlite"):
        assert driver.run(enqueue("c"))[0].status == "new"
    assert "was replaced or deleted while in use" in caplog.text
    assert [view.id for view in driver.run(ops.List(State.READY)).jobs] == ["b", "c"]
    driver.close()
    assert_sound(driver.path)


def test_a_driver_opens_again_after_it_was_closed(driver: SQLiteDriver) -> None:
    driver.close()
    driver.run(enqueue("a"))
    driver.close()
    driver.close()
    assert driver.run(ops.Get("a")) is not None


async def test_aclose_finishes_what_waits(driver: SQLiteDriver) -> None:
    tasks = [asyncio.create_task(driver.arun(enqueue(f"{n}"))) for n in range(10)]
    await asyncio.sleep(0)
    await driver.aclose()
    assert len(await asyncio.gather(*tasks)) == 10
    assert len((await driver.arun(ops.List(State.READY))).jobs) == 10
    await driver.aclose()


def test_tables_may_have_another_prefix(sqlite_path: Path) -> None:
    shop, mail = (SQLiteDriver(sqlite_path, SQLiteStore(prefix=prefix)) for prefix in ("shop_", ""))
    shop.run(enqueue("a"))
    assert mail.run(ops.Get("a")) is None
    mail.run(enqueue("a", "b"))
    assert [len(driver.run(ops.List(State.READY)).jobs) for driver in (shop, mail)] == [1, 2]
    shop.close()
    mail.close()
    connection = sqlite3.connect(sqlite_path)
    names = {name for (name,) in connection.execute("select name from sqlite_master where name not like 'sqlite_%'")}
    connection.close()
    assert {"shop_jobs", "jobs", "shop_jobs_ready", "jobs_ready"} <= names
    assert not [name for name in names if name.startswith("headrace")]


@pytest.mark.parametrize("prefix", ["a-b", "1a", "A", "a b", 'a"', "a;drop table x--", "sqlite_", "ä"])
def test_a_prefix_is_an_identifier(prefix: str) -> None:
    with pytest.raises(ConfigError, match="no table prefix"):
        SQLiteStore(prefix=prefix)


def test_every_hot_statement_uses_an_index(driver: SQLiteDriver) -> None:
    """Cost per job does not grow with the jobs that wait: no statement of the daily path reads a whole table."""
    driver.run(enqueue("a"))
    connection = sqlite3.connect(driver.path)
    connection.create_function("headrace_now", 0, int)
    hot = {
        name: text
        for name, text in driver.store.sql.items()
        if name.partition(".")[0] in ("enqueue", "claim", "settle", "lease") and "?" not in text
    }
    assert len(hot) > 15
    for name, text in hot.items():
        names = set(re.findall(r":(\w+)", text))
        steps = connection.execute(f"explain query plan {text}", dict.fromkeys(names)).fetchall()
        scans = {step for *_, step in steps if step.startswith("SCAN") and "VIRTUAL TABLE" not in step}
        # what is small whatever waits: the workers, what they are running, and the ids (e) that were handed over
        running = {f"SCAN {alias} USING INDEX headrace_jobs_running" for alias in "dj"}
        assert scans <= {"SCAN headrace_workers", "SCAN CONSTANT ROW", "SCAN e", *running}, name
    connection.close()


def test_tombstones_go_with_the_jobs_that_end(sqlite_path: Path) -> None:
    """The file does not grow with the jobs that have been, nor must any one operation clear away millions."""
    now = [1_700_000_000_000_000]
    driver = SQLiteDriver(sqlite_path, SQLiteStore(now=lambda: now[0]))
    most = 0
    for number in range(1, 31):
        now[0] += 10_000_000
        driver.run(enqueue(*(f"{number}-{n}" for n in range(50))))
        jobs = driver.run(ops.Claim("w", number, ("q",), 50, 10**6)).jobs
        driver.run(ops.Settle("w", tuple(ops.Outcome(j.id, j.queue, j.token, State.SUCCEEDED) for j in jobs)))
        connection = sqlite3.connect(sqlite_path)
        most = max(most, connection.execute("select count(*) from headrace_gone").fetchone()[0])
        connection.close()
    driver.close()
    assert most <= 13 * 50  # 60 s of promise and 60 s of margin, at 50 jobs each 10 s, and the last
