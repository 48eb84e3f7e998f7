"""What happens between statements of two connections, staged with real locks or run against each other in threads."""

import asyncio
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.postgres import PostgresDriver
from headrace.errors import InvalidArguments
from tests.process.postgres_jobs import ask, open_driver, plain
from tests.process.redis_jobs import claim, drain, enqueue, job
from tests.waiting import wait_until

Other = psycopg.Connection[tuple[Any, ...]]

STORE = """\
insert into {name}_jobs
    (id, queue, task, state, token, created_us, base_us, due_us, since_us, unique_key, held_key, body)
values (%(id)s, 'q', 'task', 'ready', 1, 1, 1, 1, 1, %(key)s, %(key)s, '')
"""


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
def beside(driver: PostgresDriver) -> Iterator[Callable[[Any], "Future[Any]"]]:
    """Run an operation in another thread."""
    with ThreadPoolExecutor(8) as pool:
        yield lambda operation: pool.submit(driver.run, operation)


@pytest.fixture
def blocked(postgres_url: str, unique_name: str) -> Callable[[], None]:
    """Wait until the driver waits for somebody's lock."""
    waiting = "select count(*) from pg_locks as l join pg_stat_activity as a using (pid) where not l.granted and "
    return lambda: wait_until(lambda: ask(postgres_url, waiting + "a.application_name = %s", unique_name))


def together(*calls: Callable[[], Any]) -> list[Any]:
    """All at once, each in a thread; the first error is raised."""
    barrier = threading.Barrier(len(calls))

    def meet(call: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(meet, calls))


# -- a resent enqueue and the end of its job


def test_a_resent_enqueue_while_its_job_is_settled_makes_no_second_one(
    driver: PostgresDriver, other: Other, beside: Callable[[Any], "Future[Any]"], unique_name: str
) -> None:
    """The job is still to be seen: it exists, whatever becomes of the settle."""
    driver.run(enqueue(job("a")))
    other.execute(f"delete from {unique_name}_jobs where id = 'a'".encode())
    assert beside(enqueue(job("a"))).result(10)[0].status == "exists"
    other.commit()


def test_a_job_that_comes_and_goes_while_its_enqueue_is_resent_does_not_come_back(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    """Neither job nor tombstone are to be seen when the resent statement begins; its row goes in after both."""
    other.execute(STORE.format(name=unique_name).encode(), {"id": "a", "key": None})
    resent = beside(enqueue(job("a"), job("b")))
    blocked()
    other.execute(f"delete from {unique_name}_jobs where id = 'a'".encode())
    other.execute(f"insert into {unique_name}_gone values ('a', {2**62}, 2)".encode())
    other.commit()
    assert [one.id for one in resent.result(10)] == ["a", "b"]
    assert drain(driver.run) == ["b"]
    assert driver.run(enqueue(job("a")))[0].status == "exists"


def test_resent_enqueues_and_workers_run_each_job_once(driver: PostgresDriver) -> None:
    """B013: producers that send everything three times, while workers drain as quickly as they can."""
    ids = [str(n) for n in range(300)]
    done: list[str] = []
    over = threading.Event()

    def produce() -> None:
        chance = random.Random(threading.get_ident())
        for some in zip(*[iter(ids)] * 5, strict=True):
            shuffled = list(some)
            chance.shuffle(shuffled)
            driver.run(enqueue(*[job(id) for id in shuffled]))

    def work(name: str) -> None:
        while True:
            last = over.is_set()
            found = drain(driver.run, worker=name)
            done.extend(found)
            if last and not found:
                return

    def produce_all() -> None:
        together(produce, produce, produce)
        over.set()

    together(produce_all, lambda: work("w1"), lambda: work("w2"))
    assert Counter(done) == Counter(ids)


# -- unique keys


def test_a_key_whose_holder_ends_meanwhile_is_free(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    other.execute(STORE.format(name=unique_name).encode(), {"id": "a", "key": "k"})
    second = beside(enqueue(job("b", unique="k")))
    blocked()
    other.execute(f"delete from {unique_name}_jobs where id = 'a'".encode())
    other.commit()
    assert second.result(10)[0] == ops.Enqueued("new", "b")


def test_a_key_that_another_transaction_takes_is_waited_for(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    """The answer names the holder, which could not be seen when the statement began; the rest of the call is stored."""
    other.execute(STORE.format(name=unique_name).encode(), {"id": "a", "key": "k"})
    second = beside(enqueue(job("b", unique="k"), job("c", unique="l")))
    blocked()
    assert driver.run(enqueue(job("free", unique="m")))[0].status == "new"  # nobody else waits
    other.commit()
    assert second.result(10) == [ops.Enqueued("duplicate", "a"), ops.Enqueued("new", "c")]


def test_a_key_is_never_held_twice_however_quickly_it_changes_hands(driver: PostgresDriver, postgres_url: str) -> None:
    numbers = itertools.count()

    def change_hands() -> Counter[str]:
        seen: Counter[str] = Counter()
        for _ in range(60):
            id = f"j{next(numbers)}"
            answer = driver.run(enqueue(job(id, unique="k")))[0]
            seen[answer.status] += 1
            assert (answer.id == id) == (answer.status == "new")
            if answer.status == "new":
                assert driver.run(ops.Cancel(id)) == "cancelled"
        return seen

    seen = sum(together(*[change_hands] * 4), Counter())
    assert seen["new"] + seen["duplicate"] == 240
    assert driver.run(enqueue(job("last", unique="k")))[0].status == "new"


def test_producers_of_the_same_keys_in_any_order_never_deadlock(driver: PostgresDriver) -> None:
    """B130"""
    numbers = itertools.count()

    def produce() -> list[Any]:
        chance = random.Random(threading.get_ident())
        answers = []
        for _ in range(20):
            keys = [f"k{n}" for n in range(10)]
            chance.shuffle(keys)
            answers += driver.run(enqueue(*[job(f"j{next(numbers)}", unique=key) for key in keys]))
        return answers

    answers = list(itertools.chain.from_iterable(together(*[produce] * 4)))
    assert sum(answer.status == "new" for answer in answers) == 10
    assert len(drain(driver.run)) == 10


# -- the end of a claim


def test_settle_rescue_and_cancel_end_a_claim_once(driver: PostgresDriver) -> None:
    """Each job ends once or goes back once, whoever comes first, and nothing deadlocks."""
    driver.run(enqueue(*[job(f"j{n:03}") for n in range(200)]))
    jobs = driver.run(ops.Claim("dead", 1, ("q",), 200, 1)).jobs
    backwards = list(reversed(jobs))
    ended, failed, rescued, *_ = together(
        lambda: driver.run(ops.Settle("dead", _ends(jobs[:150]))),
        lambda: driver.run(ops.Settle("dead", _ends(backwards[:150], State.FAILED))),
        lambda: driver.run(ops.Rescue(("q",))).jobs,
        lambda: [driver.run(ops.Cancel(each.id)) for each in jobs[::10]],
    )
    count = Counter(each.id for each, yes in zip(jobs[:150], ended, strict=True) if yes)
    count.update(each.id for each, yes in zip(backwards[:150], failed, strict=True) if yes)
    count.update(orphan.id for orphan in rescued)
    assert set(count.values()) <= {1}
    state = {each.id: driver.run(ops.Get(each.id)) for each in jobs}
    for id, view in state.items():
        if not count[id]:  # not rescued, not settled: only a cancel can have come between
            assert view is not None, id
            assert view.state in {State.RUNNING, State.CANCELLED}, id


def _ends(jobs: list[ops.ClaimedJob], state: State = State.SUCCEEDED) -> tuple[ops.Outcome, ...]:
    return tuple(ops.Outcome(each.id, each.queue, each.token, state) for each in jobs)


def test_a_cancel_that_comes_between_does_not_make_a_settle_stale(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    """The outcome would take the job back to the line; by the time it may, the job is to end."""
    driver.run(enqueue(job("a")))
    jobs = driver.run(claim(1)).jobs
    other.execute(f"update {unique_name}_jobs set cancel = true where id = 'a'".encode())
    back = beside(ops.Settle("w", _ends(jobs, State.READY)))
    blocked()
    other.commit()
    assert back.result(10) == [True]
    assert driver.run(ops.Get("a")) is None
    assert driver.run(ops.Cancel("a")) == "finished"


def test_a_heartbeat_that_comes_first_saves_its_worker(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    """The rescuer found the lease over, and waits for the row of the worker, who is extending it."""
    driver.run(enqueue(job("a")))
    assert len(driver.run(ops.Claim("w", 1, ("q",), 1, 1)).jobs) == 1
    other.execute(f"update {unique_name}_workers set lease_until_us = {2**62}".encode())
    rescue = beside(ops.Rescue(("q",)))
    blocked()
    other.commit()
    assert rescue.result(10).jobs == []
    view = driver.run(ops.Get("a"))
    assert view is not None
    assert view.state == State.RUNNING


# -- due jobs and tombstones


def test_claims_that_promote_at_once_share_the_due_jobs(driver: PostgresDriver, unique_name: str, other: Other) -> None:
    """B131: none lost, none twice, whoever makes them ready."""
    driver.run(enqueue(*[job(f"j{n:04}", delay_us=60_000_000) for n in range(1000)]))
    other.execute(f"update {unique_name}_jobs set due_us = 1".encode())
    other.commit()

    def produce() -> None:
        for n in range(20):
            driver.run(enqueue(job(f"new{n}")))

    def work(name: str) -> list[str]:
        return drain(driver.run, worker=name, limit=50)

    *found, _ = together(lambda: work("a"), lambda: work("b"), lambda: work("c"), produce)
    done = [*itertools.chain.from_iterable(found), *drain(driver.run)]
    assert Counter(done) == Counter([*(f"j{n:04}" for n in range(1000)), *(f"new{n}" for n in range(20))])


def test_tombstones_are_cleared_away_by_many_at_once(driver: PostgresDriver, other: Other, unique_name: str) -> None:
    """B131: old ones go with settles and prunes, young ones stay, and nobody deadlocks."""
    driver.run(enqueue(*[job(f"j{n:03}") for n in range(400)]))
    other.execute(f"insert into {unique_name}_gone select 'old' || n, n, 1 from generate_series(1, 3000) as n".encode())
    other.commit()

    def prune() -> None:
        for _ in range(10):
            driver.run(ops.Prune(limit=100))

    together(lambda: drain(driver.run, worker="a", limit=20), lambda: drain(driver.run, worker="b", limit=20), prune)
    while driver.run(ops.Prune()).more:
        pass
    kept = other.execute(f"select count(*), count(*) filter (where id like 'old%') from {unique_name}_gone".encode())
    assert kept.fetchone() == (400, 0)


def test_a_lost_conflict_is_tried_again(driver: PostgresDriver, other: Other, unique_name: str) -> None:
    """Two transactions that wait for each other: the server ends ours, and the driver begins it anew."""
    driver.run(enqueue(job("a"), job("b")))
    jobs = driver.run(claim(1)).jobs
    other.execute(b"set deadlock_timeout = '10s'")
    other.execute(f"select 1 from {unique_name}_jobs where id = 'b' for update".encode())
    with ThreadPoolExecutor(1) as pool:
        both = pool.submit(driver.run, ops.Settle("w", _ends(jobs)))
        waiting = "select count(*) from pg_locks where not granted"
        wait_until(lambda: ask(driver_url(driver), waiting))
        other.execute(f"update {unique_name}_jobs set reason = 'x' where id = 'a'".encode())
        other.commit()
        assert both.result(30) == [True, True]


def driver_url(driver: PostgresDriver) -> str:
    """Where it connects to."""
    of = driver.address.parameters
    return f"postgresql://{of['user']}@{of['host']}:{of['port']}/{of['dbname']}"


# -- many at once


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_many_jobs_are_copied_in_and_known_ones_are_answered(driver: PostgresDriver, colour: str) -> None:
    """In the order of the call, with delays, whatever is known of some of them already."""

    def run(operation: Any) -> Any:
        if colour == "sync":
            return driver.run(operation)

        async def once() -> Any:
            answer = await driver.arun(operation)
            await driver.aclose()
            return answer

        return asyncio.run(once())

    many = [job(f"j{n:04}", derived=True) for n in range(1500)]
    later = [job(f"k{n:04}", delay_us=3_600_000_000, priority=3) for n in range(200)]
    assert {answer.status for answer in run(enqueue(*many, *later))} == {"new"}
    assert {answer.status for answer in run(enqueue(*many, *later))} == {"exists"}
    assert drain(driver.run, limit=500) == [each.id for each in many]
    mixed = [*many[:3], *[job(f"m{n}") for n in range(300)]]
    assert [answer.status for answer in run(enqueue(*mixed))] == ["exists"] * 3 + ["new"] * 300
    assert driver.run(ops.Queues())[0].scheduled == 200
    with pytest.raises(InvalidArguments):
        run(enqueue(*[job(f"n{n}") for n in range(300)], job("a\x00b")))
    assert driver.run(ops.Get("n0")) is None  # all or none


def test_producers_of_the_same_many_jobs_store_each_once(driver: PostgresDriver) -> None:
    """Both find the ids new; one of them then meets the rows of the other, and looks again."""
    jobs = [job(f"j{n:03}") for n in range(400)]

    def produce() -> list[str]:
        return [answer.status for answer in driver.run(enqueue(*jobs))]

    answers = together(*[produce] * 4)
    assert sum(statuses.count("new") for statuses in answers) == 400
    assert all(set(statuses) <= {"new", "exists"} for statuses in answers)
    assert sorted(drain(driver.run)) == [each.id for each in jobs]


def test_a_job_that_comes_and_goes_while_many_are_copied_does_not_come_back(
    driver: PostgresDriver,
    other: Other,
    beside: Callable[[Any], "Future[Any]"],
    blocked: Callable[[], None],
    unique_name: str,
) -> None:
    other.execute(STORE.format(name=unique_name).encode(), {"id": "a", "key": None})
    resent = beside(enqueue(job("a"), *[job(f"j{n}") for n in range(200)]))
    blocked()
    other.execute(f"delete from {unique_name}_jobs where id = 'a'".encode())
    other.execute(f"insert into {unique_name}_gone values ('a', {2**62}, 2)".encode())
    other.commit()
    assert len(resent.result(10)) == 201
    assert len(drain(driver.run)) == 200
