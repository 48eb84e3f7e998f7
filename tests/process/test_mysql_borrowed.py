"""An enqueue inside a caller's own transaction, on a connection of PyMySQL's with settings of its own."""

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pymysql
import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.paramstyle import pyformat, spread
from headrace.drivers.run import run
from headrace.stores.plan import Statement, Step
from headrace.testing.conformance.harness import job
from tests.contract.prefixes import connect
from tests.process.mysql_jobs import claim, enqueue, open_driver, settle, waiting
from tests.waiting import wait_until

LEVELS = pytest.mark.parametrize("level", ["repeatable read", "read committed", "serializable"])


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.fixture
def caller(mysql_url: str) -> Iterator[Any]:
    connection = connect(mysql_url)
    yield connection
    connection.close()


class Borrowed:
    """Runs the steps as they are: one cursor, and nothing but `execute`."""

    def __init__(self, driver: MySQLDriver, connection: pymysql.connections.Connection) -> None:
        self._driver = driver
        self._connection = connection
        self.sent: list[str] = []

    def enqueue(self, *jobs: ops.NewJob | str) -> list[ops.Enqueued]:
        wanted = tuple(job(each) if isinstance(each, str) else each for each in jobs)
        return run(self._driver.store.borrowed(ops.Enqueue(wanted)), self._execute)  # type: ignore[attr-defined]

    def _execute(self, step: Step) -> Any:
        assert isinstance(step, Statement)
        text, params = spread(self._driver.store.sql[step.sql], step.params or {}, step.many or [])  # type: ignore[arg-type]
        self.sent.append(step.sql)
        with self._connection.cursor() as cursor:
            cursor.execute(pyformat(text), params)
            return cursor.fetchall()


@pytest.fixture
def begun(driver: MySQLDriver, caller: Any) -> Callable[[str], Borrowed]:
    def begin(level: str) -> Borrowed:
        with caller.cursor() as cursor:
            cursor.execute(f"set session transaction isolation level {level}")
            cursor.execute("begin")
            cursor.execute("select count(*) from information_schema.tables")
            cursor.execute(f"select count(*) from {_table(driver)}jobs")  # from here on a snapshot is old
        return Borrowed(driver, caller)

    return begin


def _table(driver: MySQLDriver) -> str:
    return driver.store.sql["moment.version"].split()[4].removesuffix("meta")


@LEVELS
def test_jobs_are_there_when_the_caller_commits_and_not_before(
    driver: MySQLDriver, caller: Any, begun: Callable[[str], Borrowed], level: str
) -> None:
    answers = begun(level).enqueue(job("a", unique="k"), "b", job("c", unique="k"), "a")
    assert [(each.status, each.id) for each in answers] == [
        *(("new", "a"), ("new", "b"), ("duplicate", "a"), ("exists", "a"))
    ]
    assert claim(driver.run, 1, 5) == []
    caller.commit()
    assert [each.id for each in claim(driver.run, 2, 5)] == ["a", "b"]


@LEVELS
def test_a_rollback_leaves_nothing(
    driver: MySQLDriver, caller: Any, begun: Callable[[str], Borrowed], level: str
) -> None:
    begun(level).enqueue(job("a", unique="k"))
    caller.rollback()
    assert driver.run(ops.Queues()) == []
    assert enqueue(driver.run, "a", job("b", unique="k")) == ["new", "new"]


@pytest.mark.parametrize("level", ["repeatable read", "read committed"])
def test_an_old_snapshot_hides_no_duplicate(
    driver: MySQLDriver, caller: Any, begun: Callable[[str], Borrowed], level: str
) -> None:
    """Committed by others since: an id, a key, a derived id that has ended or failed meanwhile."""
    enqueue(driver.run, "first")
    borrowed = begun(level)
    enqueue(driver.run, job("done", priority=2, derived=True), job("failed", priority=1, derived=True))
    done, failed = claim(driver.run, 1, 2)
    driver.run(settle([done]))
    driver.run(settle([failed], State.FAILED))
    enqueue(driver.run, job("there", unique="k"))
    answers = borrowed.enqueue(
        job("done", derived=True), job("failed", derived=True), "there", job("x", unique="k"), "new"
    )
    assert [each.status for each in answers] == ["exists", "exists", "exists", "duplicate", "new"]
    assert answers[3].id == "there"
    caller.commit()
    assert sorted(each.id for each in claim(driver.run, 2, 9)) == ["first", "new", "there"]


def test_a_long_transaction_holds_up_no_other_producer(
    driver: MySQLDriver, caller: Any, begun: Callable[[str], Borrowed]
) -> None:
    """Nor workers, nor the promotion of due jobs."""
    enqueue(driver.run, job("due", delay_us=1), "before")
    borrowed = begun("repeatable read")
    assert [each.status for each in borrowed.enqueue(*(f"mine-{n}" for n in range(50)))] == ["new"] * 50
    assert enqueue(driver.run, "a", job("z", unique="other"), "mine") == ["new"] * 3
    claims = claim(driver.run, 1, 10)
    assert sorted(each.id for each in claims) == ["a", "before", "due", "mine", "z"]
    assert all(driver.run(settle(claims)))
    assert "enqueue.promote" not in borrowed.sent
    caller.commit()
    assert len(claim(driver.run, 2, 100)) == 50


def test_who_wants_the_same_key_waits_for_the_caller(
    driver: MySQLDriver, mysql_url: str, caller: Any, begun: Callable[[str], Borrowed]
) -> None:
    begun("repeatable read").enqueue(job("a", unique="k"))
    answers: list[list[str]] = []
    thread = Thread(target=lambda: answers.append(enqueue(driver.run, job("b", unique="k"))))
    thread.start()
    wait_until(lambda: waiting(mysql_url) > 0)
    caller.rollback()
    thread.join()
    assert answers == [["new"]]
