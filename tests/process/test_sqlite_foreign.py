"""Rows that other programs wrote into the tables: they must not hold up the jobs of ours."""

import asyncio
import contextlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core import trail
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


@pytest.mark.parametrize(("column", "value"), [("id", "cast(x'ff61' as text)"), ("id", "x'ff61'")])
def test_an_id_that_cannot_be_read_fails_under_one_that_can(
    h: Harness, sqlite_path: Path, column: str, value: str
) -> None:
    h.put("1", "odd", "2", job("\\xffa"))
    change(sqlite_path, f"update headrace_jobs set {column} = {value} where id = 'odd'")
    assert h.beat(open_claim=1).released == 0
    claims = h.take(3)
    assert ids(claims) == ["1", "2", "\\xffa"]
    assert [h.settle(each, State.SUCCEEDED) for each in claims] == [True] * 3
    (failed,) = h.run(ops.List(State.FAILED, reason="unreadable", bodies=True)).jobs
    assert (failed.id, failed.task, failed.body) == ("\\xffa+2", "task", b"body of odd")
    (mishap,) = trail.decode(failed.trail).history
    assert mishap.message.endswith("what is wrong is its id")
    assert h.run(ops.Replay((failed.id,))).replayed == [failed.id]
    assert [each.body for each in h.take(1)] == [b"body of odd"]
    assert h.queue().failed == 0


@pytest.mark.parametrize("way", ["beat", "leave", "rescue", "repeat", "settle"])
@pytest.mark.parametrize(
    "spoiled",
    ["id = cast(x'ff' as text)", "token = 'abc'", "token = 9223372036854775807", "claim = 'x'", "worker = null"],
)
def test_a_running_row_that_cannot_be_read_holds_nobody_up(
    h: Harness, sqlite_path: Path, way: str, spoiled: str
) -> None:
    h.put("1", "odd", "2")
    claims = h.take(3)
    change(sqlite_path, f"update headrace_jobs set {spoiled} where id = 'odd'")
    good = [each for each in claims if each.id != "odd"]
    if way == "beat":
        assert h.beat(*good, open_claim=9).lost == []
    elif way == "repeat":
        assert {"1", "2"} <= set(ids(h.claim(3, number=1).jobs))
    if way in ("beat", "repeat", "settle"):
        outcomes = (ops.Outcome(each.id, "q", each.token, State.READY) for each in claims)
        assert h.settle_all(outcomes)[::2] == [True, True]
    elif way == "leave":
        assert h.run(ops.Leave("w1", ("q",))) >= 2
    h.clock.advance_us(2 * LEASE)
    h.rescue()
    again = h.claim(9, worker="w2").jobs
    assert {"1", "2"} <= set(ids(again))
    assert h.settle_all(ops.Outcome(each.id, "q", each.token, State.SUCCEEDED) for each in again) == [True] * len(again)
    assert len(h.listed(State.FAILED)) + len(again) == 3


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


WORDS = ("'READY'", "'done'", "'running'", "'ready'", "'scheduled'", "'failed'", "'start'", "'a' || char(0) || 'b'")
NUMBERS = ("9223372036854775807", "-9223372036854775808", "-1", "0", "1.5", "-1e300", "9e999")
VALUES = (*WORDS, *NUMBERS, "cast(x'ff' as text)", "cast(x'eda080' as text)", "x'ff00'", "x''", "''", "'7'", "null")


@pytest.mark.parametrize("seed", range(12))
def test_a_foreign_writer_in_every_column_stops_nobody(h: Harness, sqlite_path: Path, seed: int) -> None:
    """Whatever stands there: claims, beats, settles, rescues, listings and pruning of the other jobs go on."""
    rng = random.Random(seed)
    h.put("0")
    foreign = sqlite3.connect(sqlite_path, isolation_level=None)
    for turn in range(1, 61):
        good = [f"{turn}-{n}" for n in range(3)]
        h.put(*(job(f"odd{turn}-{n}", unique=f"u{turn}-{n}") for n in range(2)))
        if rng.random() < 0.5:
            h.claim(rng.randint(1, 2), worker="dead", number=turn)
        h.put(good[0], job(good[1], unique=good[1]), job(good[2], delay_us=turn % 3))
        if rng.random() < 0.5:
            h.clock.advance_us(3 * LEASE)
        for _ in range(rng.randint(1, 6)):
            _spoil(rng, foreign)
        h.clock.advance_us(1000)
        _work_off(h, turn, set(good))
        h.run(ops.Enqueue((job(f"more{turn}", unique=f"u{turn}-0"),)))
        h.run(ops.Replay(tuple(f"odd{n}-{m}" for n in range(turn + 1) for m in range(2))))
        h.run(ops.Cancel(f"odd{turn}-1", keep_us=1))
        assert "q" in [view.name for view in h.run(ops.Queues())]
        h.run(ops.Workers())
        for _ in range(50):
            if not h.run(ops.Prune(age_us=LEASE, most=50)).more:
                break
        else:
            raise AssertionError("pruning never ends")
    foreign.close()


def _spoil(rng: random.Random, foreign: sqlite3.Connection) -> None:
    """One column of one row that is none of the good ones."""
    table = rng.choice(("headrace_jobs", "headrace_ended"))
    columns = [row[1] for row in foreign.execute(f"pragma table_info({table})") if row[1] != "place"]
    statement = f"update {table} set {rng.choice(columns)} = {rng.choice(VALUES)} where rowid = ?"
    rows = foreign.execute(f"select rowid from {table} where hex(id) not glob '3*'").fetchall()
    if rows:
        with contextlib.suppress(sqlite3.IntegrityError):
            foreign.execute(statement, rng.choice(rows))


def _work_off(h: Harness, turn: int, good: set[str]) -> None:
    """Claim until the good ones of this turn were run, one of them after its worker had died."""
    worker, number, done, rescued = f"w{turn}", 0, set[str](), turn % 4 == 0
    while not good <= done:
        number += 1
        assert number < 30, f"{good - done} are never given out"
        taken = h.claim(5, worker=worker, number=number).jobs
        again = {each.id: each for each in h.claim(5, worker=worker, number=number).jobs}
        assert [again[each.id] for each in taken] == taken
        held = tuple(ops.Held(each.id, each.queue, each.token) for each in taken)
        beaten = h.run(ops.Beat(worker, ("q",), LEASE, held, number + 1))
        assert not good & {each.id for each in beaten.lost}
        if rescued and good & set(ids(taken)):
            rescued = False
            h.clock.advance_us(LEASE)
            assert good & set(ids(taken)) <= set(ids(h.rescue()))
            continue
        outcomes = tuple(ops.Outcome(each.id, "q", each.token, State.SUCCEEDED, keep_us=number % 2) for each in taken)
        settled = h.run(ops.Settle(worker, outcomes))
        assert all(settled)
        done |= set(ids(taken))
    h.run(ops.Leave(worker, ("q",)))


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


async def _work_all(app: Headrace) -> None:
    await app.worker(burst=True).run()


def test_a_worker_and_the_command_line_go_on_beside_rows_that_cannot_be_read(sqlite_path: Path, tmp_path: Path) -> None:
    """What cannot be read is among the failed jobs, and can be shown, retried and forgotten there."""
    app = Headrace(f"sqlite:///{sqlite_path}")
    done: list[int] = []

    @app.task(name="note")
    async def note(number: int) -> None:
        done.append(number)

    note.enqueue_many({"number": n} for n in range(6))
    app.close()
    with sqlite3.connect(sqlite_path) as connection:
        odd = connection.execute("select place from headrace_jobs order by place limit 3").fetchall()
        for place, wrong in zip(odd, ("cast(x'ff' as text)", "x'fe'", "cast(x'6fed' as text)"), strict=True):
            connection.execute(f"update headrace_jobs set id = {wrong} where place = ?", place)
    connection.close()
    asyncio.run(_work_all(app))
    assert done == [3, 4, 5]
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    module = tmp_path / "foreign_shop.py"
    module.write_text(f"from headrace import Headrace\napp = Headrace('sqlite:///{sqlite_path}')\n")
    command = [sys.executable, "-m", "headrace.cli", "failed", "list", "--json", "--app", "foreign_shop:app"]
    ran = subprocess.run(command, capture_output=True, timeout=60, env=environment, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    shown = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {each["id"] for each in shown} == {"\\xff", "\\xfe", "o\\xed"}
    assert {each["reason"] for each in shown} == {"unreadable"}
    app.close()


def test_what_nobody_can_claim_is_counted(h: Harness, driver: SQLiteDriver, sqlite_path: Path) -> None:
    """A state that does not exist, a queue that is no text: they stay, the others go on, and the doctor tells."""
    h.enqueue(job("lost"), job("nowhere"), job("good"))
    change(sqlite_path, "update headrace_jobs set state = 'redy' where id = 'lost'")
    change(sqlite_path, "update headrace_jobs set queue = cast(x'ff' as text) where id = 'nowhere'")
    assert [each.id for each in h.claim().jobs] == ["good"]
    (found,) = [finding for finding in driver.run(ops.Inspect()) if finding.subject == "rows"]
    assert found.level == "warning"
    assert "1 row in states that do not exist" in found.text
    assert "1 queue with a name that is no text" in found.text
