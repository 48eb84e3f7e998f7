"""Two transactions at once: what one does while the other is half done, and that nobody is told of a deadlock."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.line import Line
from headrace.stores.mysql import MySQLStore
from headrace.testing.conformance.harness import LEASE, job, outcome
from tests.process.mysql_jobs import DAY, ask, at_once, claim, enqueue, open_driver, settle, while_half_done

MICROSECONDS = 1_000_000


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED])
def test_an_enqueue_repeated_while_its_job_ends_makes_no_second_job(
    driver: MySQLDriver, mysql_url: str, state: State
) -> None:
    enqueue(driver.run, "a")
    settled, answers = while_half_done(
        driver, mysql_url, settle(claim(driver.run, 1), state), ops.Enqueue((job("a"), job("b")))
    )
    assert settled == [True]
    assert [answer.status for answer in answers] == ["exists", "new"]
    assert [each.id for each in claim(driver.run, 2, 10)] == ["b"]


def test_of_two_enqueues_with_one_key_the_later_is_a_duplicate(driver: MySQLDriver, mysql_url: str) -> None:
    first, second = (ops.Enqueue((job(id, unique="k"),)) for id in ("a", "b"))
    one, other = while_half_done(driver, mysql_url, first, second)
    assert (one, other) == ([ops.Enqueued("new", "a")], [ops.Enqueued("duplicate", "a")])


def test_a_key_is_free_for_whoever_waited_for_its_holder_to_end(driver: MySQLDriver, mysql_url: str) -> None:
    enqueue(driver.run, job("a", unique="k"))
    _, answers = while_half_done(driver, mysql_url, settle(claim(driver.run, 1)), ops.Enqueue((job("b", unique="k"),)))
    assert answers == [ops.Enqueued("new", "b")]


def test_an_undone_enqueue_holds_neither_id_nor_key(driver: MySQLDriver, mysql_url: str) -> None:
    line = Line(driver.address, driver._texts)

    def undone() -> Any:
        yield from driver.store.plan(ops.Enqueue((job("a", unique="k"),)))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        line.run(undone(), writes=True)
    line.drop()
    assert enqueue(driver.run, job("b", unique="k"), "a") == ["new", "new"]


def test_same_key_again_and_again_from_many_threads(driver: MySQLDriver) -> None:
    """B130: one job per key, and no deadlock reaches anybody."""
    rounds, threads = 40, 6

    def produce(thread: int) -> Callable[[], list[str]]:
        def run() -> list[str]:
            found = []
            for n in range(rounds):
                jobs = (job(f"{thread}-{n}", unique=f"k{n}"), job(f"{thread}-{n}-b", unique=f"k{n + 1}-b"))
                found += enqueue(driver.run, *(jobs if thread % 2 else jobs[::-1]))
            return found

        return run

    answers = at_once(*(produce(thread) for thread in range(threads)))
    counts = {status: sum(each.count(status) for each in answers) for status in ("new", "duplicate")}
    assert counts == {"new": 2 * rounds, "duplicate": 2 * rounds * (threads - 1)}
    assert driver.run(ops.Queues())[0].ready == 2 * rounds


def test_a_heartbeat_that_comes_after_a_rescue_has_lost_its_jobs(driver: MySQLDriver, mysql_url: str) -> None:
    enqueue(driver.run, "a")
    claimed = driver.run(ops.Claim("late", 1, ("q",), 1, 1)).jobs[0]
    beat = ops.Beat("late", ("q",), LEASE, (ops.Held("a", "q", claimed.token),), 2)
    rescued, beaten = while_half_done(driver, mysql_url, ops.Rescue(("q",)), beat)
    assert [orphan.id for orphan in rescued.jobs] == ["a"]
    # it may have looked before the rescue was through; then the next one tells
    assert [held.id for held in beaten.lost or driver.run(beat).lost] == ["a"]
    assert driver.run(settle([claimed])) == [False]


def test_a_rescue_that_comes_after_a_heartbeat_finds_nobody_dead(driver: MySQLDriver, mysql_url: str) -> None:
    enqueue(driver.run, "a")
    claimed = driver.run(ops.Claim("late", 1, ("q",), 1, 1)).jobs[0]
    beat = ops.Beat("late", ("q",), LEASE, (ops.Held("a", "q", claimed.token),), 2)
    beaten, rescued = while_half_done(driver, mysql_url, beat, ops.Rescue(("q",)))
    assert (beaten.lost, rescued.jobs) == ([], [])
    assert driver.run(settle([claimed])) == [True]


def test_a_claim_repeated_while_the_first_is_under_way_has_the_same_jobs(driver: MySQLDriver, mysql_url: str) -> None:
    """3b.3: a worker that lost patience, not the connection."""
    enqueue(driver.run, *"abc")
    again = ops.Claim("w", 1, ("q",), 2, LEASE)
    first, second = while_half_done(driver, mysql_url, again, again)
    assert [each.id for each in first.jobs] == ["a", "b"]
    assert second.jobs == first.jobs
    assert [each.id for each in claim(driver.run, 2, 5)] == ["c"]


def test_settle_cancel_and_rescue_at_once_end_a_job_one_way(driver: MySQLDriver) -> None:
    for n in range(25):
        enqueue(driver.run, job(f"{n}", unique="k"))
        claimed = driver.run(ops.Claim(f"w{n}", 1, ("q",), 1, 1)).jobs[0]
        settled, cancelled, rescued = at_once(
            lambda each=claimed: driver.run(settle([each]))[0],  # type: ignore[misc]
            lambda id=claimed.id: driver.run(ops.Cancel(id)),  # type: ignore[misc]
            lambda: driver.run(ops.Rescue(("q",))).jobs,
        )
        assert settled != bool(rescued), (settled, rescued)
        view = driver.run(ops.Get(f"{n}"))
        if settled:
            assert cancelled in ("finished", "requested")
            assert view is None
        else:
            assert cancelled in ("cancelled", "requested")
            # asked to cancel before the rescue, or after it and while it waited again
            assert view is None or view.state == State.CANCELLED
        assert driver.run(ops.Queues())[0].running == 0


def test_promotions_at_once_share_the_due_jobs(driver: MySQLDriver) -> None:
    """B131: each due job becomes ready once, under a place of its own, in the order of its due time."""
    names = [f"{n:03}" for n in range(300)]
    past = 1_000_000
    enqueue(driver.run, *(job(name, due_us=4 * 10**15 + n) for n, name in enumerate(names)))
    table = driver.store.sql["moment.version"].split()[4].removesuffix("meta")
    url = _url(driver)
    ask(url, f"update {table}jobs set turn = turn - %s, due_us = turn", 4 * 10**15 - past)
    answers = at_once(*[lambda: driver.run(ops.Promote(("q",), 100))] * 4)
    left = 0
    while more := driver.run(ops.Promote(("q",), 100)):
        left += more
    assert sum(answers) + left == 300
    places = [row[0] for row in ask(url, f"select place from {table}jobs where state = 'ready'")]
    assert len(set(places)) == 300


def _url(driver: MySQLDriver) -> str:
    address = driver.address
    return f"mysql://{address.user}:{address.password}@{address.host}:{address.port}/{address.database}"


def test_prunes_at_once_take_each_job_once(driver: MySQLDriver) -> None:
    names = [f"{n:03}" for n in range(200)]
    enqueue(driver.run, *names)
    driver.run(settle(claim(driver.run, 1, 200), State.FAILED))
    answers = at_once(*[lambda: driver.run(ops.Prune(age_us=0, limit=60)).failed] * 4)
    while pruned := driver.run(ops.Prune(age_us=0, limit=60)).failed:
        answers.append(pruned)
    assert sum(answers) == 200
    assert driver.run(ops.List(State.FAILED)).jobs == []


def test_replays_at_once_bring_a_job_back_once(driver: MySQLDriver) -> None:
    """B135: two clicks on "retry all"."""
    names = tuple(f"{n}" for n in range(20))
    enqueue(driver.run, *names)
    driver.run(settle(claim(driver.run, 1, 20), State.FAILED))
    answers = at_once(*[lambda: driver.run(ops.Replay(names)).replayed] * 3)
    assert sorted(itertools.chain(*answers)) == sorted(names)
    assert sorted(each.id for each in claim(driver.run, 2, 100)) == sorted(names)


def test_producers_promoters_and_workers_at_once_lose_nothing(driver: MySQLDriver) -> None:
    """B131: 2 producers, 2 promoters, 3 workers, one who counts and prunes; every job ends once."""
    ended: list[str] = []
    per_producer, producers = 150, 2

    def over() -> bool:
        return len(ended) >= per_producer * producers

    def produce(who: int) -> None:
        for n in range(0, per_producer, 5):
            jobs = (job(f"{who}-{n + k}", delay_us=(k % 3) * 1000, unique=f"{who}-{n + k}") for k in range(5))
            assert enqueue(driver.run, *jobs) == ["new"] * 5

    def promote() -> None:
        while not over():
            driver.run(ops.Promote(("q",), 20))

    def work(who: int) -> None:
        number = 0
        while not over():
            number += 1
            claims = claim(driver.run, number, 7, worker=f"w{who}")
            last = [outcome(each, State.SUCCEEDED) for each in claims if each.trail]
            again = [outcome(each, State.SCHEDULED, trail=b"{}") for each in claims if not each.trail]
            answers = driver.run(ops.Settle(f"w{who}", tuple(last + again)))
            ended.extend(one.id for one, settled in zip(last, answers, strict=False) if settled)

    def disturb() -> None:
        while not over():
            driver.run(ops.Prune(age_us=DAY))
            driver.run(ops.Queues())

    at_once(
        *(lambda who=who: produce(who) for who in range(producers)),  # type: ignore[misc]
        *[promote] * 2,
        *(lambda who=who: work(who) for who in range(3)),  # type: ignore[misc]
        disturb,
    )
    assert sorted(ended) == sorted(f"{who}-{n}" for who in range(producers) for n in range(per_producer))
    assert [queue.ready + queue.scheduled + queue.running for queue in driver.run(ops.Queues())] == [0]


def test_many_processes_worth_of_drivers_prepare_one_schema_at_once(mysql_url: str, unique_name: str) -> None:
    drivers = [open_driver(mysql_url, unique_name) for _ in range(6)]
    at_once(*(lambda each=each: each.run(ops.Prepare()) for each in drivers))  # type: ignore[misc]
    assert enqueue(drivers[0].run, "a") == ["new"]
    assert enqueue(drivers[5].run, "a") == ["exists"]
    rows = ask(mysql_url, f"select count(*) from {unique_name}_meta where name in ('schema', 'installation_id')")
    assert rows == [(2,)]
    for each in drivers:
        each.close()


@pytest.mark.parametrize("after", [*range(1, 9), 13])
def test_a_schema_that_was_left_half_made_is_finished(mysql_url: str, unique_name: str, after: int) -> None:
    """A change of the schema commits by itself: a crash may leave any number of its steps done."""
    store = MySQLStore(prefix=f"{unique_name}_")
    names = list(store._migrations)
    assert len(names) > after - 1
    for name in names[:after]:
        ask(mysql_url, store.sql[name])
    driver = open_driver(mysql_url, unique_name)
    assert enqueue(driver.run, "a", "a") == ["new", "exists"]
    driver.close()
