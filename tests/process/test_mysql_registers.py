"""Registers and parked jobs on MySQL and MariaDB: who waits for whom, who must not, and an index kept by hand."""

from collections.abc import Iterator

import pytest

from headrace.core import operations as ops
from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.core.registers import Amend, LookRegisters
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.errors import InvalidArguments
from headrace.migrations import statements
from headrace.testing.conformance.harness import job
from headrace.testing.conformance.registers import Append, Count, Erase
from tests.process.mysql_jobs import HalfDone, ask, claim, enqueue, open_driver, while_half_done

ODD = b"\xff'\\\x00"


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


def content(driver: MySQLDriver) -> dict[str, bytes]:
    return {view.name: view.body for view in driver.run(LookRegisters())}


def count(text: bytes, *names: str) -> Amend:
    return Amend(tuple(Count(register=name, text=text) for name in names))


def park(driver: MySQLDriver, *ids: str, reason: str = "r", number: int = 1) -> None:
    enqueue(driver.run, *ids)
    parked = [
        ops.Outcome(each.id, each.queue, each.token, State.PARKED, reason=reason)
        for each in claim(driver.run, number, len(ids))
    ]
    assert driver.run(ops.Settle("w", tuple(parked))) == [True] * len(ids)


def reasons(driver: MySQLDriver) -> list[str]:
    return [each.reason for each in driver.run(LookParked(("q",)))]


def counts(driver: MySQLDriver) -> dict[str, int | None]:
    return {each.reason: each.jobs for each in driver.run(LookParked(("q",), counting=True))}


def test_who_changes_nothing_waits_for_nobody(driver: MySQLDriver) -> None:
    """Every worker asks a closed circuit all the time: not even those who write to it may hold that up."""
    driver.run(count(b"a", "r"))
    half = HalfDone(driver, count(b"b", "r"))
    assert driver.run(Amend((Append(register="r", text=b"a"), Erase(register="none"))))[0][0] == b"a"
    half.commit()
    assert content(driver) == {"r": b"ab"}


def test_who_waits_sees_what_the_other_wrote(driver: MySQLDriver, mysql_url: str) -> None:
    driver.run(count(b"a", "r", "s"))
    while_half_done(driver, mysql_url, count(b"x", "s"), count(b"b", "s", "r"))
    assert content(driver) == {"r": b"ab", "s": b"axb"}


def test_a_first_writer_waits_for_the_other_first_writer(driver: MySQLDriver, mysql_url: str) -> None:
    while_half_done(driver, mysql_url, count(b"x", "r"), count(b"b", "s", "r", "q"))
    assert content(driver) == {"q": b"b", "r": b"xb", "s": b"b"}


def test_a_register_that_goes_while_somebody_waits_for_it_begins_anew(driver: MySQLDriver, mysql_url: str) -> None:
    driver.run(count(b"a", "r"))
    while_half_done(driver, mysql_url, Amend((Erase(register="r"),)), count(b"b", "r"))
    assert content(driver) == {"r": b"b"}


def test_what_is_locked_for_nothing_leaves_nothing(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    driver.run(Amend((*count(b"b", "r", "s").changes, Erase(register="s"))))
    assert content(driver) == {"r": b"b"}
    assert ask(mysql_url, f"select count(*) from {unique_name}_registers") == [(1,)]


def test_names_have_their_bounds(driver: MySQLDriver, mysql_url: str, unique_name: str) -> None:
    """300 bytes, told apart by case and by spaces at their ends; one that is no text is nobody's."""
    names = ["r" * 300, "a", "A", "a ", "\N{ROCKET}" * 75]
    driver.run(count(b"x", *names))
    ask(mysql_url, f"insert into {unique_name}_registers (name, until_us, body) values (%s, {2**62}, 'b')", ODD)
    assert content(driver) == dict.fromkeys(names, b"x")
    with pytest.raises(InvalidArguments, match="on MySQL it may have 300"):
        driver.run(count(b"x", "\N{ROCKET}" * 76))


def test_one_that_is_being_cancelled_is_left_without_waiting(driver: MySQLDriver) -> None:
    park(driver, "a", "b", "c")
    half = HalfDone(driver, ops.Cancel("b"))
    assert driver.run(Unpark(("q",), "r", 9)) == 2
    assert half.commit() == "cancelled"
    assert driver.run(Unpark(("q",), "r", 9)) == 0
    assert [each.id for each in claim(driver.run, 2, 9)] == ["a", "c"]
    assert reasons(driver) == []


def test_one_that_is_being_parked_is_none_yet(driver: MySQLDriver) -> None:
    park(driver, "a")
    enqueue(driver.run, "b")
    (b,) = claim(driver.run, 2)
    half = HalfDone(driver, ops.Settle("w", (ops.Outcome("b", "q", b.token, State.PARKED, reason="r"),)))
    assert driver.run(Unpark(("q",), "r", 9)) == 1
    assert half.commit() == [True]
    assert driver.run(Unpark(("q",), "r", 9)) == 1


def test_what_older_code_cancelled_or_gave_back_means_nothing(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    """It knows nothing of the rows of parked jobs: during a deploy some are left, of jobs that are gone. They count."""
    park(driver, *(f"{n:02}" for n in range(20)))
    ask(mysql_url, f"delete from {unique_name}_jobs where id < '10'")
    ask(mysql_url, f"update {unique_name}_jobs set state = 'ready' where id in ('10', '11')")
    ask(mysql_url, f"update {unique_name}_jobs set reason = 'other' where id = '12'")
    assert counts(driver) == {"r": 20}
    assert driver.run(Unpark(("q",), "r", 5)) == 5
    assert counts(driver) == {"r": 2}
    assert driver.run(Unpark(("q",), "r", 5)) == 2
    assert reasons(driver) == []
    assert len(claim(driver.run, 2, 20)) == 9


def test_jobs_that_were_parked_before_the_upgrade_come_back(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    park(driver, "a", "b", reason="smtp")
    for up in (False, True):
        for statement in statements("mysql", name=unique_name, from_version=3 + (not up), to_version=3 + up):
            ask(mysql_url, statement)
        if not up:  # the way down has made them ready
            ask(mysql_url, f"update {unique_name}_jobs set state = 'parked'")
    assert reasons(driver) == ["smtp"]
    assert driver.run(Unpark(("q",), "smtp", 9)) == 2


def test_reasons_and_queues_of_other_programs_hold_up_nobody(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    park(driver, "a", "b", "c")
    for table in ("jobs", "parked"):
        ask(mysql_url, f"update {unique_name}_{table} set reason = %s where id = 'a'", ODD)
        ask(mysql_url, f"update {unique_name}_{table} set queue = %s where id = 'b'", ODD)
    assert reasons(driver) == ["r"]
    odd = ODD.decode(errors="surrogateescape")
    assert driver.run(LookParked(("q", odd))) == [ParkedFor("q", "r"), ParkedFor(odd, "r")]
    assert driver.run(Unpark(("q", odd), "r", 9)) == 2


def test_parked_jobs_are_found_among_those_of_other_reasons(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    """Without sorting them, and without regard to what the statistics say."""
    park(driver, *(f"a{n:03}" for n in range(400)), reason="r1")
    park(driver, "b", reason="r2", number=2)
    explain = (
        "explain select id from {name} force index (line) where queue = 'q' and reason = 'r2' order by turn, place"
    )
    ((*_, extra),) = ask(mysql_url, explain.format(name=f"{unique_name}_parked") + " limit 1 for update skip locked")
    assert "filesort" not in extra
    explain = "explain select count(*) from {name} force index (line) where queue = 'q' and reason = 'r2'"
    ((*_, extra),) = ask(mysql_url, explain.format(name=f"{unique_name}_parked"))
    assert "Using index" in extra
    assert reasons(driver) == ["r1", "r2"]
    assert counts(driver) == {"r1": 400, "r2": 1}
    assert driver.run(Unpark(("q",), "r2", 9)) == 1
    assert driver.run(Unpark(("q",), "r1", 1000)) == 400
    assert reasons(driver) == []


def test_a_job_that_is_parked_keeps_its_place_and_no_row_is_left(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    park(driver, "a")
    enqueue(driver.run, job("b", priority=1), "c")
    assert driver.run(Unpark(("q",), "r", 1)) == 1
    assert [each.id for each in claim(driver.run, 2, 9)] == ["b", "a", "c"]
    assert ask(mysql_url, f"select count(*) from {unique_name}_parked") == [(0,)]
