"""Rows that other programs wrote into the tables: they must not hold up the jobs of ours."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance.harness import LEASE, Harness, ids, job
from tests.process.mysql_jobs import ask, open_driver
from tests.waiting import await_until

ODD = b"\xff'\\\x00"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def driver(mysql_url: str, unique_name: str, clock: VirtualClock) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name, clock)
    yield driver
    driver.close()


@pytest.fixture
def h(driver: MySQLDriver, clock: VirtualClock) -> Harness:
    return Harness(driver.run, clock)


@pytest.fixture
def odd(h: Harness, mysql_url: str, unique_name: str) -> str:
    """A ready job whose id, key, task and reason are no UTF-8, between two of ours."""
    h.put("1", job("odd", unique="key"), "2")
    ask(
        mysql_url,
        f"update {unique_name}_jobs set id = %s, task = %s, reason = %s, unique_key = %s, held_key = %s "
        "where id = 'odd'",
        *(ODD, ODD, ODD, ODD, b"q\0" + ODD),
    )
    return ODD.decode(errors="surrogateescape")


def test_an_id_that_cannot_be_read_fails_under_one_that_can(h: Harness, odd: str) -> None:
    assert [view.id for view in h.run(ops.List(State.READY)).jobs] == ["1", odd, "2"]
    claims = h.claim(3).jobs
    assert ids(claims) == ["1", "2"]
    assert [h.settle(each, State.SUCCEEDED) for each in claims] == [True] * 2
    (failed,) = h.run(ops.List(State.FAILED, reason="unreadable", bodies=True)).jobs
    assert failed.id.startswith("\\xff'")
    assert failed.body == b"body of odd"
    (mishap,) = trail.decode(failed.trail).history
    assert mishap.message.endswith("what is wrong is its id")
    assert h.run(ops.Replay((failed.id,))).replayed == [failed.id]
    assert [each.body for each in h.take(1)] == [b"body of odd"]


def test_an_id_that_cannot_be_read_can_be_cancelled(h: Harness, odd: str) -> None:
    assert h.get(odd).body == b"body of odd"
    assert h.run(ops.Cancel(odd)) == "cancelled"
    assert ids(h.take(2)) == ["1", "2"]


@pytest.mark.parametrize(
    "change",
    [
        "state = 'strange'",
        "state = ''",
        "priority = -2147483648, turn = 2147483648",
        "turn = -9223372036854775807",
        "token = 9223372036854775807",
        "place = -1, token = -5, created_us = -1, base_us = -1, due_us = -1, since_us = -1",
        "body = '', trail = 'no trail'",
        "cancel = 7, derived = 9, unique_until = 'whenever', unique_us = -1, claim = -1",
        "queue = ''",
        "worker = 'somebody'",
    ],
)
def test_an_odd_row_holds_up_nobody(h: Harness, mysql_url: str, unique_name: str, change: str) -> None:
    h.put("1", "odd", "2")
    ask(mysql_url, f"update {unique_name}_jobs set {change} where id = 'odd'")
    for state in State:
        h.listed(state)
    h.run(ops.Queues())
    claims = h.claim(10).jobs
    assert {"1", "2"} <= {each.id for each in claims}
    assert {"1", "2"} <= set(ids(h.crash()))
    h.beat(worker="w1")
    claims = h.claim(10).jobs
    assert all(h.settle_all(ops.Outcome(each.id, "q", each.token, State.FAILED) for each in claims))
    h.run(ops.Cancel("odd"))
    assert {"1", "2"} <= set(h.listed(State.FAILED))
    h.run(ops.Prune(most=0))


def test_a_running_row_without_a_worker_is_left_alone(h: Harness, mysql_url: str, unique_name: str) -> None:
    h.put("odd", "1")
    ask(mysql_url, f"update {unique_name}_jobs set state = 'running' where id = 'odd'")
    h.take(1)
    h.clock.advance_us(LEASE)
    assert ids(h.rescue()) == ["1"]
    assert h.run(ops.Cancel("odd")) == "requested"


def test_a_job_that_another_program_wrote_with_the_fewest_columns_runs(
    h: Harness, mysql_url: str, unique_name: str
) -> None:
    h.run(ops.Prepare())
    ask(
        mysql_url,
        f"insert into {unique_name}_jobs (id, queue, task, state, body) values ('a', 'q', 'task', 'ready', '{{}}')",
    )
    claimed = h.take(1)[0]
    assert (claimed.id, claimed.body, claimed.trail) == ("a", b"{}", None)
    assert h.settle(claimed, State.FAILED, trail=trail.encode(trail.Trail(errors=1)))


def test_a_worker_fails_an_unreadable_row_and_goes_on(mysql_url: str, unique_name: str) -> None:
    app = Headrace(mysql_url, name=unique_name)
    ran: list[int] = []

    @app.task
    async def note(n: int) -> None:
        ran.append(n)

    note.enqueue(n=1)
    ask(mysql_url, f"update {unique_name}_jobs set body = %s", ODD)
    note.enqueue(n=2)

    async def work() -> None:
        worker = app.worker(concurrency=2)
        running = asyncio.create_task(worker.run())
        await await_until(lambda: ran == [2])
        worker.stop()
        await running
        await app.aclose()

    asyncio.run(work())
    assert [view.reason for view in app.jobs.list(state="failed").jobs] == ["unreadable"]
    app.close()
