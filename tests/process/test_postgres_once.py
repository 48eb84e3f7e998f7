"""Once records between two connections, staged with real locks; and what their statements cost in a large table."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, TakeOnce
from headrace.core.states import State
from headrace.drivers.postgres import PostgresDriver
from headrace.testing.conformance.once import RESULT, SCOPE, claim_of, end_of, lease_of
from headrace.transactions import lend
from tests.process.postgres_jobs import Beside, ask, open_driver, plain, waiting_beside
from tests.process.redis_jobs import claim, enqueue, job, settle

Other = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def driver(postgres_url: str, unique_name: str) -> Iterator[PostgresDriver]:
    driver = open_driver(postgres_url, unique_name, f"pool_size=16&application_name={unique_name}")
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.fixture
def other(driver: PostgresDriver, postgres_url: str) -> Iterator[Other]:
    """Another connection, inside a transaction of its own, which waits for nobody."""
    with plain(postgres_url) as connection:
        connection.execute("set lock_timeout = '100ms'")
        connection.commit()
        yield connection


@pytest.fixture
def beside(driver: PostgresDriver, postgres_url: str, unique_name: str) -> Iterator[Beside]:
    with waiting_beside(driver, postgres_url, unique_name) as begin:
        yield begin


def running(driver: PostgresDriver, *ids: str, number: int = 1) -> list[ops.ClaimedJob]:
    """New jobs, claimed."""
    driver.run(enqueue(*(job(id) for id in ids)))
    return list(driver.run(claim(number, len(ids))).jobs)


def take(driver: PostgresDriver, *claims: OnceClaim) -> list[OnceTaken]:
    return driver.run(TakeOnce(claims))


def statuses(taken: list[OnceTaken]) -> list[str]:
    return [each.status for each in taken]


def ended(claimed: ops.ClaimedJob, fence: int, *then: ops.NewJob, key: str = "k", **options: Any) -> ops.Outcome:
    once = end_of(fence, key, **options)
    return ops.Outcome(claimed.id, claimed.queue, claimed.token, State.SUCCEEDED, once=once, then=then)


# -- takers among each other


def test_records_that_are_free_are_locked_in_the_order_of_their_keys(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str
) -> None:
    """So takers in any order wait for each other in one. B130"""
    (a,) = running(driver, "a")
    assert statuses(take(driver, claim_of(a, "k1"), claim_of(a, "k2"))) == ["mine", "mine"]
    driver.run(settle([a]))
    lock = f"select 1 from {unique_name}_once where key = %s for update"
    other.execute(lock.encode(), ["k1"])
    (b,) = running(driver, "b", number=2)
    taken = beside(TakeOnce((claim_of(b, "k2"), claim_of(b, "k1"))))
    other.execute(lock.encode(), ["k2"])  # which is not locked yet
    other.commit()
    assert statuses(taken.result(10)) == ["mine", "mine"]


def test_records_that_are_new_are_made_in_the_order_of_their_keys(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str
) -> None:
    """The one that another has made meanwhile is looked at once more."""
    a, b = running(driver, "a", "b")
    make = f"insert into {unique_name}_once values (%s, %s, %s, 'held', %s, %s, 0, 7, {2**62})"
    rows = [(SCOPE, key, claim_of(a).fingerprint, a.id, a.token) for key in ("k1", "k2")]
    other.execute(make.encode(), rows[0])
    taken = beside(TakeOnce((claim_of(b, "k3"), claim_of(b, "k2"), claim_of(b, "k1"))))
    other.execute(make.encode(), rows[1])
    other.commit()
    third, *others = taken.result(10)
    assert third.status == "mine"
    assert others == [OnceTaken("held", 7), OnceTaken("held", 7)]


def test_a_record_that_another_takes_meanwhile_is_held_by_its_job(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str
) -> None:
    """Also where that job was claimed after the look at the record, and so could not be seen running."""
    (a,) = running(driver, "a")
    (first,) = take(driver, claim_of(a))
    driver.run(settle([a]))
    other.execute(f"select 1 from {unique_name}_once for update".encode())
    (b,) = running(driver, "b", number=2)
    taken = beside(TakeOnce((claim_of(b),)))
    (c,) = running(driver, "c", number=3)
    change = f"update {unique_name}_once set owner = %s, token = %s, fence = %s"
    other.execute(change.encode(), [c.id, c.token, first.fence + 1])
    other.commit()
    assert taken.result(10) == [OnceTaken("held", first.fence + 1)]
    driver.run(settle([c]))
    (again,) = take(driver, claim_of(b))
    assert (again.status, again.fence > first.fence + 1) == ("mine", True)


def test_a_record_that_goes_while_it_is_taken_is_made_anew(
    driver: PostgresDriver, other: Other, beside: Beside, unique_name: str
) -> None:
    """Pruned in that moment."""
    (a,) = running(driver, "a")
    take(driver, claim_of(a))
    driver.run(settle([a]))
    other.execute(f"delete from {unique_name}_once".encode())
    (b,) = running(driver, "b", number=2)
    taken = beside(TakeOnce((claim_of(b),)))
    other.commit()
    assert statuses(taken.result(10)) == ["mine"]


def test_takers_of_the_same_free_records_in_any_order_get_each_once(driver: PostgresDriver) -> None:
    """Of jobs that are gone, and of leases that are over: 50 keys, 8 takers, each in an order of its own."""
    keys = [f"k{n:02}" for n in range(50)]
    (a,) = running(driver, "a")
    assert statuses(take(driver, *(claim_of(a, key) for key in keys))) == ["mine"] * 50
    assert statuses(take(driver, *(lease_of("dead", key, lease_us=1) for key in keys))) == ["mine"] * 50
    driver.run(settle([a]))
    jobs = running(driver, *(f"j{n}" for n in range(8)), number=2)
    barrier = threading.Barrier(len(jobs))

    def taker(mine: ops.ClaimedJob) -> Counter[str]:
        order = random.Random(mine.id).sample(keys, len(keys))
        barrier.wait(30)
        by_job = statuses(take(driver, *(claim_of(mine, key) for key in order)))
        by_lease = statuses(take(driver, *(lease_of(mine.id, key) for key in reversed(order))))
        return Counter(by_job + by_lease)

    with ThreadPoolExecutor(len(jobs)) as pool:
        seen = sum(pool.map(taker, jobs), Counter[str]())
    assert seen == {"mine": 100, "held": 700}


# -- takers and those who end


def test_nobody_waits_for_a_transaction_that_ends_a_record(
    driver: PostgresDriver, other: Other, unique_name: str
) -> None:
    """A handler's, which may be long: until it commits its job holds the record, and other records are taken."""
    a, b = running(driver, "a", "b")
    (first,) = take(driver, claim_of(a))
    assert lend(other).run(driver.store, ops.Settle("w", (ended(a, first.fence, job("then")),))) == [True]
    assert take(driver, claim_of(b)) == [OnceTaken("held", first.fence)]
    assert statuses(take(driver, claim_of(b), claim_of(b, "k2"))) == ["held", "mine"]
    assert driver.run(ops.Get("then")) is None
    other.commit()
    assert take(driver, claim_of(b)) == [OnceTaken("done", first.fence, RESULT)]
    then = driver.run(ops.Get("then"))
    assert then is not None
    assert then.state == State.READY


def test_a_rollback_takes_the_end_of_job_and_record_back(driver: PostgresDriver, other: Other) -> None:
    (a,) = running(driver, "a")
    (first,) = take(driver, claim_of(a))
    for outcome in (ended(a, first.fence), ended(a, first.fence, job("then"))):
        assert lend(other).run(driver.store, ops.Settle("w", (outcome,))) == [True]
        other.rollback()
        view = driver.run(LookOnce(SCOPE, "k"))
        assert view is not None
        assert (view.state, view.result) == ("held", None)
        assert driver.run(ops.Get("then")) is None
    assert driver.run(ops.Settle("w", (ended(a, first.fence),))) == [True]


@pytest.mark.parametrize("following", [False, True])
def test_a_settle_that_waited_for_its_record_finds_what_became_of_it(
    following: bool,
    driver: PostgresDriver,
    other: Other,
    beside: Beside,
    unique_name: str,
) -> None:
    """Written by somebody meanwhile: ended all the same while it is the job's own, else the job goes on."""
    jobs = running(driver, "a", "b")
    fences = [taken.fence for taken in take(driver, *(claim_of(each, each.id) for each in jobs))]
    table = f"{unique_name}_once"
    other.execute(f"update {table} set until_us = until_us + 1 where key = 'a'".encode())
    other.execute(f"update {table} set fence = fence + 1 where key = 'b'".encode())
    then = {id: [job(f"then {id}")] if following else [] for id in "ab"}
    outcomes = [ended(each, fence, *then[each.id], key=each.id) for each, fence in zip(jobs, fences, strict=True)]
    answer = beside(ops.Settle("w", tuple(outcomes)))
    other.commit()
    assert answer.result(10) == [True, False]
    views = {key: driver.run(LookOnce(SCOPE, key)) for key in "ab"}
    assert {key: view and (view.state, view.result) for key, view in views.items()} == {
        "a": ("done", RESULT),
        "b": ("held", None),
    }
    assert [driver.run(ops.Get(id)) is not None for id in ("a", "b", "then a", "then b")] == [
        False,
        True,
        following,
        False,
    ]


# -- large tables, and statistics from when they were empty

MANY = 10_000
TIMEOUT = "timeout=3"  # seconds that each statement has: a hundred times what it takes


@pytest.mark.parametrize("failing", [False, True])
def test_a_table_that_was_vacuumed_empty_takes_many_records(failing: bool, postgres_url: str, unique_name: str) -> None:
    """Taken, met, taken from the dead and ended, a thousand at a time, while statistics say that there are none."""
    driver = open_driver(postgres_url, unique_name, TIMEOUT)
    driver.run(ops.Prepare())
    with plain(postgres_url) as connection:
        connection.autocommit = True
        for table in ("once", "jobs", "gone"):
            connection.execute(f"vacuum analyze {unique_name}_{table}".encode())
    driver.run(enqueue(*(job(f"{n:05}") for n in range(MANY))))
    jobs = driver.run(claim(1, MANY)).jobs
    lost = tuple(OnceClaim(SCOPE, each.id, b"f" * 32, "gone", 1) for each in jobs)
    mine = tuple(claim_of(each, each.id) for each in jobs)
    theirs = tuple(OnceClaim(SCOPE, each.key, each.fingerprint, "another", 1) for each in mine)
    assert set(statuses(take(driver, *lost))) == {"mine"}
    taken = take(driver, *mine)
    assert set(statuses(taken)) == {"mine"}
    assert set(statuses(take(driver, *theirs))) == {"held"}
    outcomes = [ended(each, one.fence, key=each.id) for each, one in zip(jobs, taken, strict=True)]
    if failing:
        outcomes = [ops.Outcome(each.id, each.queue, each.token, State.FAILED, once=each.once) for each in outcomes]
    assert all(driver.run(ops.Settle("w", tuple(outcomes))))
    assert set(statuses(take(driver, *theirs))) == {"done"}
    driver.close()


OVER = """insert into {name}_once (scope, key, fingerprint, state, owner, token, lease_until_us, fence, until_us)
    select 's', n::text, '', 'done', 'o', 1, 0, 1, 1 from generate_series(1, 5) as n"""


def test_a_table_that_was_vacuumed_empty_is_pruned_in_steps(
    driver: PostgresDriver, postgres_url: str, unique_name: str
) -> None:
    """B160: not more records than were asked for, whatever plan deletes them."""
    over, table = OVER.format(name=unique_name), f"{unique_name}_once"
    with plain(postgres_url) as connection:
        connection.autocommit = True
        for statement in (over, f"delete from {table}", f"vacuum analyze {table}", over):
            connection.execute(statement.encode())
    left = []
    for _ in "abc":
        more = driver.run(ops.Prune(limit=2)).more
        left.append((ask(postgres_url, f"select count(*) from {table}"), more))
    assert left == [(3, True), (1, True), (0, False)]


def test_a_settle_without_records_reads_none(driver: PostgresDriver) -> None:
    """What jobs do not use costs them nothing: one statement, which does not know of records."""
    (a,) = running(driver, "a")
    plan = driver.store.plan(settle([a]))
    step = next(plan)
    assert (step.sql, step.alone) == ("settle.succeed", True)  # type: ignore[union-attr]
    assert "_once" not in driver.store.sql["settle.succeed"]
    assert "_once" not in driver.store.sql["settle.settle"]
    plan.close()


def test_an_end_that_is_sent_again_while_the_first_one_is_at_it_answers_the_same(
    driver: PostgresDriver, other: Other, beside: Beside
) -> None:
    """It waits for the first one, and must not judge by what it saw before."""
    fence = take(driver, lease_of("me"))[0].fence
    end = EndOnce("me", end_of(fence, scope=""))
    assert lend(other).run(driver.store, end)
    again = beside(end)
    other.commit()
    assert again.result(30) is True
    stranger = EndOnce("you", end_of(fence, scope=""))
    assert driver.run(stranger) is False
