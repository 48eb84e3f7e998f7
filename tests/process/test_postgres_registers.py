"""Registers and parked jobs on PostgreSQL: who waits for whom, who must not, and what statements read."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headrace.core import operations as ops
from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.core.registers import Amend, LookRegisters
from headrace.core.states import State
from headrace.drivers.postgres import PostgresDriver
from headrace.drivers.postgres.bell import queues_of
from headrace.testing.conformance.registers import Append, Count, Erase
from tests.process.postgres_jobs import Beside, ask, open_driver, plain, waiting_beside
from tests.process.redis_jobs import claim, enqueue, job
from tests.process.test_postgres_plans import plan_of
from tests.waiting import wait_until

Other = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def driver(postgres_url: str, unique_name: str) -> Iterator[PostgresDriver]:
    driver = open_driver(postgres_url, unique_name, f"pool_size=16&application_name={unique_name}")
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.fixture
def other(driver: PostgresDriver, postgres_url: str) -> Iterator[Other]:
    """Another connection, inside a transaction of its own."""
    with plain(postgres_url) as connection:
        yield connection


@pytest.fixture
def beside(driver: PostgresDriver, postgres_url: str, unique_name: str) -> Iterator[Beside]:
    with waiting_beside(driver, postgres_url, unique_name, threads=2) as begin:
        yield begin


def content(driver: PostgresDriver) -> dict[str, bytes]:
    return {view.name: view.body for view in driver.run(LookRegisters())}


def park(driver: PostgresDriver, *ids: str, reason: str = "r", number: int = 1) -> None:
    driver.run(enqueue(*(job(id) for id in ids)))
    jobs = driver.run(claim(number, len(ids))).jobs
    parked = (ops.Outcome(each.id, each.queue, each.token, State.PARKED, reason=reason) for each in jobs)
    assert driver.run(ops.Settle("w", tuple(parked))) == [True] * len(ids)


def test_who_changes_nothing_waits_for_nobody_and_leaves_nothing(
    driver: PostgresDriver, postgres_url: str, other: Other, unique_name: str
) -> None:
    """Every worker asks a closed circuit all the time: not even those who write to it may hold that up."""
    change = Amend((Append(register="r", text=b"a"), Erase(register="none")))
    driver.run(change)
    version = f"select xmin::text || ctid::text from {unique_name}_registers where name = 'r'"
    before = ask(postgres_url, version)
    other.execute(f"select from {unique_name}_registers for update".encode())
    assert driver.run(change)[0][0] == b"a"
    other.rollback()
    assert ask(postgres_url, version) == before


def test_who_waits_sees_what_the_other_wrote(
    driver: PostgresDriver, postgres_url: str, other: Other, beside: Beside, unique_name: str
) -> None:
    """Two registers: neither is written before both are known as they are."""
    count = Amend((Count(register="r", text=b"b"), Count(register="s", text=b"b")))
    driver.run(Amend((Count(register="r", text=b"a"), Count(register="s", text=b"a"))))
    other.execute(f"update {unique_name}_registers set body = body || 'x' where name = 's'".encode())
    waiting = beside(count)
    other.commit()
    waiting.result(30)
    assert content(driver) == {"r": b"ab", "s": b"axb"}


@pytest.mark.parametrize("commits", [True, False])
def test_a_first_writer_waits_for_the_other_first_writer(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str, commits: bool
) -> None:
    insert = f"insert into {unique_name}_registers (name, body, until_us) values ('r', 'x', {2**62})"
    other.execute(insert.encode())
    waiting = beside(Amend((Count(register="r", text=b"b"), Count(register="q", text=b"b"))))
    if commits:
        other.commit()
    else:
        other.rollback()
    waiting.result(30)
    assert content(driver) == {"q": b"b", "r": b"xb" if commits else b"b"}


def test_a_register_that_goes_while_somebody_waits_for_it_begins_anew(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str
) -> None:
    driver.run(Amend((Count(register="r", text=b"a"),)))
    other.execute(f"delete from {unique_name}_registers".encode())
    waiting = beside(Amend((Count(register="r", text=b"b"),)))
    other.commit()
    waiting.result(30)
    assert content(driver) == {"r": b"b"}


def test_what_is_locked_for_nothing_leaves_nothing(
    driver: PostgresDriver, postgres_url: str, other: Other, beside: Beside, unique_name: str
) -> None:
    """A register that was to be made is not needed after all, once the other is known."""
    driver.run(Amend((Count(register="r", text=b"a"),)))
    other.execute(f"update {unique_name}_registers set body = body || 'x'".encode())
    waiting = beside(Amend((Count(register="r", text=b"b"), Count(register="s", text=b"b"), Erase(register="s"))))
    other.commit()
    waiting.result(30)
    assert content(driver) == {"r": b"axb"}
    assert ask(postgres_url, f"select count(*) from {unique_name}_registers") == 1


def test_one_that_is_being_cancelled_is_left_without_waiting(
    driver: PostgresDriver, other: Other, unique_name: str
) -> None:
    park(driver, "a", "b", "c")
    other.execute(f"select from {unique_name}_jobs where id = 'b' for update".encode())
    assert driver.run(Unpark(("q",), "r", 9)) == 2
    other.rollback()
    assert driver.run(Unpark(("q",), "r", 9)) == 1
    assert [each.id for each in driver.run(claim(2, 9)).jobs] == ["a", "b", "c"]


def test_reasons_that_another_program_wrote_may_be_long(
    driver: PostgresDriver, postgres_url: str, unique_name: str
) -> None:
    """An index takes 2,704 bytes."""
    park(driver, "a", "b")
    long = "select string_agg(md5(n::text), '') from generate_series(1, 300) as n"
    with plain(postgres_url) as connection:
        connection.execute(f"update {unique_name}_jobs set reason = ({long}) where id = 'a'".encode())
    assert ParkedFor("q", "r") in driver.run(LookParked(("q",)))
    assert driver.run(Unpark(("q",), "r", 9)) == 1


@pytest.mark.parametrize("stale", [True, False])
def test_parked_jobs_are_found_among_those_of_other_reasons(
    driver: PostgresDriver, postgres_url: str, unique_name: str, stale: bool
) -> None:
    """Whatever the statistics: each look goes from one reason to the next, and takes jobs in their order."""
    rows = "select n::text, 'q', 't', 'parked', 1, 1, 1, 1, 1, '', 'r' || n % 3 from generate_series(1, 5000) as n"
    columns = "id, queue, task, state, token, created_us, base_us, due_us, since_us, body, reason"
    with plain(postgres_url) as connection:
        connection.autocommit = True
        for statement in (
            f"vacuum analyze {unique_name}_jobs",
            f"insert into {unique_name}_jobs ({columns}) {rows}",
            "select" if stale else f"analyze {unique_name}_jobs",
        ):
            connection.execute(statement.encode())
    for name in ("parking.unpark", "parking.look"):
        plan = plan_of(driver, postgres_url, name)
        assert f"{unique_name}_jobs_parked_for" in plan
        assert "Sort" not in plan
    counts = {"r0": 1666, "r1": 1667, "r2": 1667}
    assert driver.run(LookParked(("q",))) == [ParkedFor("q", reason) for reason in counts]
    assert driver.run(LookParked(("q",), counting=True)) == [ParkedFor("q", *each) for each in counts.items()]
    assert driver.run(Unpark(("q",), "r1", 2)) == 2
    assert [each.id for each in driver.run(claim(1, 9)).jobs] == ["1", "4"]


def test_registers_are_written_where_they_are(driver: PostgresDriver, postgres_url: str, unique_name: str) -> None:
    """No index names what is written: so a write leaves next to nothing behind (a heap-only tuple)."""
    for number in range(50):
        driver.run(Amend((Count(register="r", text=b"%d" % number),)))
    hot = f"select n_tup_upd - n_tup_hot_upd from pg_stat_user_tables where relname = '{unique_name}_registers'"
    updates = f"select n_tup_upd from pg_stat_user_tables where relname = '{unique_name}_registers'"
    driver.close()  # sessions tell what they have counted when they end
    wait_until(lambda: ask(postgres_url, updates) >= 40)
    assert ask(postgres_url, hot) == 0


def test_whoever_waits_for_these_queues_is_woken() -> None:
    assert queues_of(Unpark(("a", "b"), "r", 5), 3) == {"a", "b"}
