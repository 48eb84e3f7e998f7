"""Claims while an old transaction of somebody's keeps dead rows in the index (B129)."""

from collections.abc import Iterator

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.stores.mysql.heads import PATIENCE, Heads
from headrace.testing.conformance.harness import job, outcome
from tests.contract.prefixes import connect
from tests.process.mysql_jobs import ask, claim, enqueue, open_driver, settle
from tests.waiting import wait_until


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every claim counts as slow."""
    monkeypatch.setattr("headrace.stores.mysql.heads.SLOW_US", -1)
    monkeypatch.setattr("headrace.stores.mysql.heads.SLOW_JOB_US", 0)


def test_quick_claims_are_whole() -> None:
    heads = Heads()
    heads.looked("w", {"q": (0, 5)}, jobs=100, now=1_000_000, took_us=2_900)
    assert not heads.passed("w")


def test_a_slow_claim_is_remembered_for_ten_times_its_cost() -> None:
    heads = Heads()
    heads.looked("w", {"q": (0, 5)}, jobs=1, now=1_000_000, took_us=50_000)
    heads.looked("w", {"q": (0, 9), "q2": (-3, 1)}, jobs=1, now=1_100_000, took_us=1_000)
    assert heads.floors("w", 1_000_000 + PATIENCE * 50_000) == {"q": (0, 9), "q2": (-3, 1)}
    assert heads.floors("w", 1_000_001 + PATIENCE * 50_000) == {}
    assert not heads.passed("w")


@pytest.mark.usefixtures("slow")
def test_jobs_come_in_their_order_and_once(driver: MySQLDriver) -> None:
    names = [f"{n:03}" for n in range(60)]
    enqueue(driver.run, *names)
    found: list[str] = []
    for number in range(1, 100):
        claims = claim(driver.run, number, 7)
        found += [each.id for each in claims]
        driver.run(settle(claims))
        if not claims:
            break
    assert found == names


@pytest.mark.usefixtures("slow")
def test_what_comes_in_before_that_place_is_found_soon(driver: MySQLDriver) -> None:
    """A higher priority, and a job that was given back."""
    enqueue(driver.run, *(f"{n:04}" for n in range(600)))
    first = claim(driver.run, 1)
    back = outcome(first[0], State.READY)
    driver.run(ops.Settle("w", (back,)))
    enqueue(driver.run, job("urgent", priority=5))
    seen: list[str] = []
    numbers = iter(range(2, 600))

    def found() -> bool:
        seen.extend(each.id for each in claim(driver.run, next(numbers)))
        return {"urgent", "0000"} <= set(seen)

    wait_until(found)
    assert len(seen) == len(set(seen))


def test_an_open_snapshot_holds_up_no_claim(driver: MySQLDriver, mysql_url: str) -> None:
    names = [f"{n:04}" for n in range(3_000)]
    enqueue(driver.run, *names)
    old = connect(mysql_url)
    try:
        with old.cursor() as cursor:
            cursor.execute("start transaction with consistent snapshot")
        found: list[str] = []
        for number in range(1, 31):
            claims = claim(driver.run, number, 100)
            found += [each.id for each in claims]
            assert all(driver.run(settle(claims)))
        assert found == names
    finally:
        old.close()


@pytest.mark.parametrize("name", ["claim.take", "claim.take_after"])
def test_claims_go_through_the_index_that_has_their_order(
    driver: MySQLDriver, mysql_url: str, unique_name: str, name: str
) -> None:
    """No sorting, whatever is waiting."""
    enqueue(driver.run, *(job(f"{n:04}", f"q{n % 3}", priority=n % 5) for n in range(2_000)))
    ask(mysql_url, f"analyze table {unique_name}_jobs")
    text = driver.store.sql[name]
    for parameter, value in ((":queue", "'q1'"), (":turn", "-1"), (":place", "5"), (":limit", "10")):
        text = text.replace(parameter, value)
    (plan,) = ask(mysql_url, f"explain {text.partition('select')[1]}{text.partition('select')[2]}")
    assert "line" in plan
    assert "filesort" not in str(plan)
