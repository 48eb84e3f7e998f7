"""Once records in a SQLite file: few statements, by an index, in several processes, whatever others write into them."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, RenewOnce, TakeOnce
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance.harness import LEASE, Harness, job, outcome
from headrace.testing.conformance.once import claim_of, end_of, lease_of, mine, take
from tests.contract.test_crash_points import Scissors

RACER = """
import json, sys
from headrace.core.once_records import OnceClaim, TakeOnce
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore

path, owner = sys.argv[1:]
driver = SQLiteDriver(path, SQLiteStore())
print(flush=True)
sys.stdin.readline()
claims = [OnceClaim("", f"k{n}", b"p" * 32, owner, lease_us=3_600_000_000) for n in range(200)]
print(json.dumps([driver.run(TakeOnce((claim,)))[0].status for claim in claims]))
driver.close()
"""


@pytest.fixture
def driver(sqlite_path: Path) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(sqlite_path, SQLiteStore(now=VirtualClock()))
    yield driver
    driver.close()


@pytest.fixture
def h(driver: SQLiteDriver) -> Harness:
    clock = driver.store.now  # type: ignore[attr-defined]
    return Harness(driver.run, clock)


def test_a_thousand_records_take_no_more_statements_than_one(sqlite_path: Path) -> None:
    clock = VirtualClock()
    driver = SQLiteDriver(sqlite_path, SQLiteStore(now=clock))
    driver.store = counted = Scissors(driver.store)
    h = Harness(driver.run, clock)

    def steps(operation: ops.Operation[Any]) -> int:
        counted.target, counted.steps = operation, 0
        assert all(h.run(operation))
        return counted.steps

    h.put(*(f"j{n}" for n in range(1002)))
    first, second, *many = h.take(1002)
    assert steps(TakeOnce(tuple(claim_of(each, each.id) for each in many))) == steps(TakeOnce((claim_of(first),))) == 3
    fences = [each.fence for each in h.run(TakeOnce(tuple(claim_of(each, each.id) for each in many)))]
    plain = steps(ops.Settle("w1", (outcome(second, State.SUCCEEDED),)))
    ends = [end_of(fence, each.id) for each, fence in zip(many, fences, strict=True)]
    outcomes = [outcome(each, State.SUCCEEDED, once=end) for each, end in zip(many, ends, strict=True)]
    assert steps(ops.Settle("w1", tuple(outcomes))) == plain + 2
    driver.close()


@pytest.mark.parametrize("name", ["found", "take", "holders", "end", "renew", "look", "prune", "running"])
def test_records_are_found_by_an_index(h: Harness, sqlite_path: Path, name: str) -> None:
    h.put("a")
    text = SQLiteStore().sql[f"once.{name}"]
    with closing(sqlite3.connect(sqlite_path)) as connection:
        values = dict.fromkeys(("pairs", "ids", "odd", "scope", "key", "owner", "lease_until_us", "until_us", "now"), 1)
        bound: Any = (1,) * text.count("?") or values | {"limit": 1}
        plan = [row[3] for row in connection.execute(f"explain query plan {text}", bound)]
    assert any("SEARCH" in step for step in plan) or name == "take"
    assert not [
        step for step in plan if step.startswith("SCAN") and " VIRTUAL TABLE " not in step and "ROW" not in step
    ]


def test_of_several_processes_one_gets_each_record(sqlite_path: Path, h: Harness) -> None:
    h.put("a")  # makes the tables
    command = [sys.executable, "-W", "error", "-c", RACER, str(sqlite_path)]
    racers = [
        subprocess.Popen([*command, f"owner {n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "\n"
    answers = [json.loads(racer.communicate("\n", timeout=60)[0]) for racer in racers]
    assert [sorted(each) for each in zip(*answers, strict=True)] == [["held", "held", "mine"]] * 200


ODD = [
    *("state = 'odd'", "owner = x'ff'", "owner = cast(x'ff' as text)", "token = 'x'", "fence = 'x'", "until_us = 'x'"),
    *("lease_until_us = 'x'", "fingerprint = 'text'", "result = 'text'", "state = x'ff'"),
]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("state", ["held", "done"])
def test_a_record_that_another_program_wrote_stops_nobody(h: Harness, sqlite_path: Path, odd: str, state: str) -> None:
    """Whatever becomes of that one: the operation goes on, and the records beside it are as they should be."""
    h.put("a", "b")
    a, b = h.take(2)
    mine(h, claim_of(a))
    fence = mine(h, claim_of(a, "beside"))
    lease = mine(h, lease_of("me"))
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.execute(f"update headrace_once set state = '{state}', {odd} where key = 'k'")
        connection.commit()
    assert [each.status for each in h.run(TakeOnce((claim_of(b, "new"), claim_of(b), claim_of(b, "beside"))))][::2] == [
        "mine",
        "held",
    ]
    take(h, lease_of("you"))
    h.run(RenewOnce("", "k", "me", LEASE))
    h.run(EndOnce("me", end_of(lease, scope="")))
    for look in (LookOnce("task", "k", "q"), LookOnce("", "k")):
        assert h.run(look) is not None
    ends = (end_of(fence - 1), end_of(fence, "beside"))
    outcomes = [outcome(a, State.SUCCEEDED, once=end, then=(job("then"),)) for end in ends]
    assert h.settle_all(outcomes).count(True) == 1
    assert h.state("then") == State.READY
    h.clock.advance(31 * 24 * 3600)
    h.run(ops.Prune())
    assert take(h, OnceClaim("task", "beside", b"p" * 32, "me", lease_us=LEASE)).status == "mine"
