"""Rows that other programs wrote into the tables: they must not hold up the jobs of ours."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance.harness import LEASE, Harness, ids, job

NUL = "a\x00b"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def driver(sqlite_path: Path, clock: VirtualClock) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(sqlite_path, SQLiteStore(now=clock))
    yield driver
    driver.close()


@pytest.fixture
def h(driver: SQLiteDriver, clock: VirtualClock) -> Harness:
    return Harness(driver.run, clock)


def change(path: Path, statement: str, *parameters: object) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, parameters).rowcount == 1
    connection.close()


@pytest.fixture
def odd(h: Harness, sqlite_path: Path) -> str:
    """A ready job whose id holds a NUL, between two of ours."""
    h.put("1", job("odd", unique="key"), "2")
    change(sqlite_path, "update headrace_jobs set id = ?, unique_key = ?, held_key = ? where id = 'odd'", NUL, NUL, NUL)
    return NUL


def test_a_foreign_id_is_settled_with_the_others(h: Harness, odd: str) -> None:
    claims = h.take(3)
    assert ids(claims) == ["1", odd, "2"]
    settled = h.settle_all(ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in claims)
    assert settled == [True, True, True]
    assert (h.queue().running, h.queue().ready) == (0, 0)
    assert h.run(ops.Cancel(odd)) == "finished"


def test_a_foreign_id_is_given_back_with_the_others(h: Harness, odd: str) -> None:
    h.take(3)
    assert h.run(ops.Leave("w1", ("q",))) == 3
    h.take(3, worker="w2")
    assert h.beat(worker="w2", open_claim=2).released == 3
    h.take(3, worker="w3")
    h.clock.advance_us(LEASE)
    assert ids(h.rescue()) == ["1", odd, "2"]
    assert ids(h.take(3, worker="w4")) == ["1", odd, "2"]


def test_a_foreign_failed_job_is_replayed_and_forgotten(h: Harness, odd: str) -> None:
    claims = h.take(3)
    outcomes = [ops.Outcome(each.id, each.queue, each.token, State.FAILED) for each in claims]
    assert h.settle_all(outcomes) == [True] * 3
    assert h.run(ops.Replay(("1", odd, "2", "3"))) == ops.Replayed(["1", odd, "2"], {"3": "absent"})
    assert h.get(odd).state == State.READY
    again = h.take(3)
    assert h.settle_all(ops.Outcome(each.id, each.queue, each.token, State.FAILED) for each in again) == [True] * 3
    assert h.run(ops.Forget(("2", odd))) == 2
    assert h.listed(State.FAILED) == ["1"]


def test_an_id_that_is_a_blob_holds_nobody_up(h: Harness, sqlite_path: Path) -> None:
    h.put("1", "odd", "2")
    change(sqlite_path, "update headrace_jobs set id = ? where id = 'odd'", b"\xff")
    outcomes = [ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in h.take(3)]
    assert h.settle_all(outcomes) == [True] * 3


def test_a_body_that_is_text_runs_like_any_other(h: Harness, sqlite_path: Path) -> None:
    """As the shell of SQLite and most libraries write it."""
    h.put(job("text", body=b'{"v":1,"id":"text","task":"t","args":{}}'))
    change(sqlite_path, "update headrace_jobs set body = cast(body as text), trail = '{}' where id = 'text'")
    claimed = h.claim(1, number=1).jobs
    assert (claimed[0].body, claimed[0].trail) == (b'{"v":1,"id":"text","task":"t","args":{}}', b"{}")
    assert h.claim(1, number=1).jobs == claimed
    assert h.get("text").body == claimed[0].body
    assert [view.body for view in h.run(ops.List(State.RUNNING, bodies=True)).jobs] == [claimed[0].body]
    assert h.run(ops.Leave("w1", ("q",))) == 1
    assert h.settle(h.take(1)[0], State.FAILED)
    assert h.get("text").body == claimed[0].body


ODD = (-(2**63), 2**63 - 1, 1.5, float("inf"), "", "abc", "\ud800".encode("utf-8", "surrogatepass"), b"\xff\x00", None)


@pytest.mark.parametrize("table", ["headrace_jobs", "headrace_ended"])
def test_no_row_hides_itself_or_others_from_those_who_look(sqlite_path: Path, table: str) -> None:
    """B141: whatever stands in it."""
    app = Headrace(f"sqlite:///{sqlite_path}")
    h = Harness(app.driver.run, VirtualClock())
    h.put("1", "odd", "2")
    if table == "headrace_ended":
        outcomes = [ops.Outcome(each.id, each.queue, each.token, State.FAILED) for each in h.take(3)]
        assert h.settle_all(outcomes) == [True] * 3
    connection = sqlite3.connect(sqlite_path, isolation_level=None)
    there = {row[1] for row in connection.execute(f"pragma table_info({table})")}
    tried = 0
    for column in there - {"place", "id"}:
        for value in (*ODD, "cast(x'ff' as text)"):
            connection.execute("begin")
            with contextlib.suppress(sqlite3.IntegrityError):
                right = value if value == "cast(x'ff' as text)" else "?"
                parameters = () if right == value else (value,)
                connection.execute(f"update {table} set {column} = {right} where id = 'odd'", parameters)
                connection.execute("commit")
                tried += 1
                _look(app)
            if connection.in_transaction:
                connection.execute("rollback")
        connection.execute(
            f"update {table} set {column} = (select {column} from {table} where id = '1') where id = 'odd'"
        )
    connection.close()
    app.close()
    assert tried > 120


def _look(app: Headrace) -> None:
    for id in ("1", "2"):
        assert app.jobs.get(id) is not None
    app.jobs.get("odd")
    seen = []
    for state in State:
        cursor, first = None, True
        while first or cursor is not None:
            page = app.jobs.list(state, limit=1, cursor=cursor)
            seen += [info.id for info in page.jobs]
            cursor, first = page.next, False
            assert len(seen) < 10
    assert {"1", "2"} <= set(seen)
