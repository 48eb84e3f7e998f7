"""Operations on many jobs at once, where one of the many is not as the others are."""

from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.plan import Statement
from headrace.testing.conformance.harness import LEASE, ids, job, outcome
from tests.process.mysql_jobs import ask, claim, enqueue, open_driver, settle

NAMES = [f"{n:03}" for n in range(60)]


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    yield driver
    driver.close()


def test_one_stale_outcome_among_many(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    """3b.1: the others end, and what the stale one left is as it was."""
    enqueue(driver.run, *NAMES)
    claims = claim(driver.run, 1, 60)
    ask(mysql_url, f"update {unique_name}_jobs set token = token + 1 where id = '030'")
    assert driver.run(settle(claims)) == [name != "030" for name in NAMES]
    assert ask(mysql_url, f"select id, state from {unique_name}_jobs") == [(b"030", b"running")]
    buried = ask(mysql_url, f"select id from {unique_name}_gone order by id")
    assert [id.decode() for (id,) in buried] == [name for name in NAMES if name != "030"]


def test_all_ends_at_once(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    enqueue(driver.run, *NAMES)
    outcomes = [
        outcome(each, state, delay_us=10**9, keep_us=0)
        for each, state in zip(
            claim(driver.run, 1, 60),
            (State.SUCCEEDED, State.FAILED, State.SCHEDULED, State.READY, State.CANCELLED, State.EXPIRED) * 10,
            strict=True,
        )
    ]
    assert driver.run(ops.Settle("w", (*outcomes, outcomes[0]))) == [True] * 60 + [False]
    assert driver.run(ops.Settle("w", tuple(outcomes))) == [False] * 60
    (view,) = driver.run(ops.Queues())
    assert (view.ready, view.scheduled, view.running, view.failed) == (10, 10, 0, 10)
    assert ask(mysql_url, f"select count(*) from {unique_name}_gone") == [(40,)]


@pytest.mark.parametrize("count", [1, 2, 60])
def test_those_that_are_parked_are_looked_up_by_their_ids(
    driver: MySQLDriver, mysql_url: str, unique_name: str, count: int
) -> None:
    """However few they are, and however many jobs there are."""
    enqueue(driver.run, *(f"{n:04}" for n in range(1_000)))
    ask(mysql_url, f"analyze table {unique_name}_jobs")
    plan = driver.store.plan(settle(claim(driver.run, 1, count), State.PARKED))
    steps = [next(plan), plan.send([])]
    plan.close()
    assert [step.sql for step in steps if isinstance(step, Statement)] == ["settle.savepoint", "settle.park"]
    (text,) = driver._texts.packets(steps[1])
    (explained,) = ask(mysql_url, f"explain {text}")
    assert "range" in explained


def test_tombstones_last_as_long_as_their_ids_are_worth(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    """3b.2: a minute for a random id, a day for one that was derived or given, in one report too."""
    enqueue(driver.run, "random", job("given", derived=True))
    before = ask(mysql_url, "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))")[0][0]
    assert driver.run(settle(claim(driver.run, 1, 2))) == [True, True]
    left = {id.decode(): until - before for id, until in ask(mysql_url, f"select id, until_us from {unique_name}_gone")}
    assert TOMBSTONE_US <= left["random"] < TOMBSTONE_US + 60_000_000
    assert TOMBSTONE_DERIVED_US <= left["given"] < TOMBSTONE_DERIVED_US + 60_000_000


def test_another_process_may_settle(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    """What a process remembers of its claims is a hint, and no more."""
    enqueue(driver.run, *NAMES, job("given", derived=True))
    claims = claim(driver.run, 1, 61)
    other = open_driver(mysql_url, unique_name)
    try:
        assert other.run(settle(claims)) == [True] * 61
    finally:
        other.close()
    assert driver.run(settle(claims)) == [False] * 61
    assert enqueue(driver.run, *NAMES, "given") == ["exists"] * 61


def test_one_that_is_there_or_has_ended_among_many_that_are_new(driver: MySQLDriver) -> None:
    enqueue(driver.run, "020", "040")
    driver.run(settle(claim(driver.run, 1)))
    statuses = enqueue(driver.run, *NAMES)
    assert statuses == ["exists" if name in {"020", "040"} else "new" for name in NAMES]
    assert ids(claim(driver.run, 2, 100)) == ["040", *(name for name in NAMES if name not in {"020", "040"})]


def test_an_id_that_ended_and_is_sent_again_alone_stays_ended(driver: MySQLDriver) -> None:
    enqueue(driver.run, "a")
    driver.run(settle(claim(driver.run, 1)))
    assert enqueue(driver.run, "a") == ["exists"]
    assert claim(driver.run, 2) == []


def test_a_claim_makes_no_row_longer(mysql_url: str, unique_name: str) -> None:
    """Pages that producers have filled need not be split."""
    app = Headrace(mysql_url, name=unique_name)
    size = "length(state) + length(reason) + coalesce(length(worker), 0) + if(claimed_us is null, 0, 8)"
    try:
        enqueue(app.driver.run, *NAMES)
        before = ask(mysql_url, f"select id, {size} from {unique_name}_jobs order by id")
        worker = app.worker("q").id
        assert len(app.driver.run(ops.Claim(worker, 1, ("q",), 100, LEASE)).jobs) == 60
        after = ask(mysql_url, f"select id, {size} from {unique_name}_jobs order by id")
    finally:
        app.close()
    assert all(now[1] <= then[1] for then, now in zip(before, after, strict=True))


def test_blanks_are_no_reason(driver: MySQLDriver) -> None:
    enqueue(driver.run, "a", job("b", delay_us=10**9))
    assert [view.reason for view in driver.run(ops.List(State.READY)).jobs] == [""]
    assert [view.reason for view in driver.run(ops.List(State.SCHEDULED, reason="")).jobs] == [""]
    claim(driver.run, 1)
    (running,) = driver.run(ops.List(State.RUNNING)).jobs
    waiting = driver.run(ops.Get("b"))
    assert waiting is not None
    assert (running.reason, waiting.reason) == ("", "")
