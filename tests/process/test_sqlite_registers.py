"""Registers and parked jobs in a SQLite file: by an index, written only where they change, whatever others write."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.parking import LookParked, ParkedFor
from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance.harness import QUEUE, Harness
from headrace.testing.conformance.parking import BANK, SMTP, park, unpark
from headrace.testing.conformance.registers import Append, append, look


@pytest.fixture
def driver(sqlite_path: Path) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(sqlite_path, SQLiteStore(now=VirtualClock()))
    yield driver
    driver.close()


@pytest.fixture
def h(driver: SQLiteDriver) -> Harness:
    clock = driver.store.now  # type: ignore[attr-defined]
    return Harness(driver.run, clock)


def change(path: Path, statement: str, *values: object) -> None:
    """What another program does."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def test_a_change_that_changes_nothing_writes_nothing(h: Harness, sqlite_path: Path) -> None:
    """Every worker asks a closed circuit all the time: the file must not grow by that."""
    append(h, "r", b"a")
    with closing(sqlite3.connect(sqlite_path)) as connection:
        (before,) = connection.execute("pragma data_version").fetchone()
        assert append(h, "r", b"a") == b"a"
        assert connection.execute("pragma data_version").fetchone() == (before,)
        assert append(h, "r", b"b") == b"a"
        assert connection.execute("pragma data_version").fetchone() != (before,)


STATEMENTS = [
    *("registers.found", "registers.erase", "registers.look", "registers.prune"),
    *("parking.unpark", "parking.look", "operate.edit"),
]


@pytest.mark.parametrize("name", STATEMENTS)
def test_all_is_found_by_an_index(h: Harness, sqlite_path: Path, name: str) -> None:
    """Also beside many jobs that are parked for something else."""
    park(h, *(f"{n}" for n in range(50)))
    names = ("names", "prefix", "end", "after", "now", "queue", "queues", "reason", "id", "was", "body", "trail")
    with closing(sqlite3.connect(sqlite_path)) as connection:
        rows = connection.execute(
            f"explain query plan {SQLiteStore().sql[name]}", dict.fromkeys(names, "1") | {"limit": 1, "counting": True}
        )
        plan = [row[3] for row in rows]
    assert any("SEARCH" in step for step in plan)
    assert not [step for step in plan if "SCAN headrace" in step or "TEMP B-TREE" in step], plan


@pytest.mark.parametrize("odd", ["body = 'ab'", "until_us = 'x'", "until_us = -1.5", "body = '', until_us = 1e300"])
def test_a_register_that_another_program_wrote_stops_nobody(h: Harness, sqlite_path: Path, odd: str) -> None:
    append(h, "r", b"a")
    append(h, "s", b"a")
    change(sqlite_path, f"update headrace_registers set {odd} where name = 'r'")
    change(sqlite_path, "insert into headrace_registers values (x'7a', 'b', 1), (cast(x'ff' as text), 'b', 'x')")
    assert look(h, prefix="s") == {"s": b"a"}
    h.run(LookRegisters(prefix="r"))
    h.run(Amend((Append(register="r", text=b"b"), Append(register="s", text=b"b"))))
    assert (look(h, prefix="r")["r"][-1:], look(h, prefix="s")["s"]) == (b"b", b"ab")
    h.clock.advance(40 * 24 * 3600)
    h.run(ops.Prune())
    assert look(h, prefix="r") == {}


def test_a_name_that_is_no_text_is_shown_as_well_as_can_be(h: Harness, sqlite_path: Path) -> None:
    append(h, "r", b"a")
    change(sqlite_path, "update headrace_registers set name = cast(x'72ff' as text)")
    (view,) = h.run(LookRegisters(prefix="r"))
    assert view == RegisterView("r\ufffd", b"a", view.until_us)


ODD = [
    *("reason = x'ff'", "reason = cast(x'ff' as text)", "reason = 17", "queue = x'ff'", "queue = cast(x'ff' as text)"),
    *("priority = 'x'", "token = 'x'", "body = 'text'", "due_us = 'x'"),
]


@pytest.mark.parametrize("odd", ODD)
def test_a_parked_job_that_another_program_wrote_holds_up_nobody(h: Harness, sqlite_path: Path, odd: str) -> None:
    park(h, "a", "odd", "b")
    park(h, "c", reason=BANK)
    change(sqlite_path, f"update headrace_jobs set {odd} where id = 'odd'")
    assert {ParkedFor(QUEUE, BANK), ParkedFor(QUEUE, SMTP)} <= set(h.run(LookParked((QUEUE,))))
    assert unpark(h, 9) in (2, 3)
    claimed = h.claim(9).jobs
    assert {"a", "b"} <= {each.id for each in claimed}
    assert all(h.settle_all(ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in claimed))
    assert unpark(h, 9, BANK) == 1


def test_a_failed_job_with_a_body_of_text_can_be_edited(h: Harness, sqlite_path: Path) -> None:
    h.finished("a", State.FAILED)
    change(sqlite_path, "update headrace_ended set body = 'text'")
    assert h.run(ops.Edit("a", QUEUE, b"text", b"new", b"{}"))
    assert h.get("a").body == b"new"


def test_a_file_is_read_that_holds_parked_jobs_of_odd_queues(h: Harness) -> None:
    """A queue's name may be anything but a NUL."""
    names: list[Any] = ["", "%", "q' or 1", "\u00e9", "\U0010ffff"]
    for name in names:
        park(h, f"job of {name}", queue=name)
    assert [each.queue for each in h.run(LookParked(tuple(names)))] == sorted(names)
    assert unpark(h, 9, queues=names) == 5
