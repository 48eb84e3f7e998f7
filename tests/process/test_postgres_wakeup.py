"""The wake-up: it rings when jobs are waiting, keeps quiet otherwise, and outlives every connection."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.postgres.bell import EVERYBODY, Bell, queues_of
from headrace.drivers.postgres.wakeup import PostgresWakeup
from tests.process.postgres_jobs import open_driver
from tests.process.redis_jobs import claim, enqueue, job, repeat, settle
from tests.proxy import Proxy
from tests.waiting import wait_until

ProxyFactory = Callable[[str], Proxy]


async def listening(wakeup: PostgresWakeup) -> None:
    """Until it listens; the ring that tells of that is taken."""
    assert await wakeup.wait(20)


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_job_rings_those_who_serve_its_queue(colour: str, postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name)
    await driver.arun(ops.Prepare())
    wakeup, other = driver.wakeup("w", ["q"]), driver.wakeup("v", ["another queue"])
    await listening(wakeup)
    await listening(other)
    if colour == "async":
        await driver.arun(enqueue(job("a")))
    else:
        await asyncio.to_thread(driver.run, enqueue(job("a")))
    assert await wakeup.wait(20)
    assert not await other.wait(0.05)
    assert not await wakeup.wait(0.05)  # once is enough
    for each in (wakeup, other, wakeup):
        await each.aclose()
    assert not await wakeup.wait(20)  # closed
    await driver.aclose()


async def test_whatever_leaves_jobs_behind_rings(postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name)
    await driver.arun(enqueue(job("a"), job("b"), job("c")))
    wakeup = driver.wakeup("v", ["q"])
    await listening(wakeup)
    claimed = (await driver.arun(claim(1, 2))).jobs  # and leaves one
    assert await wakeup.wait(20)
    await driver.arun(settle(claimed[:1], State.READY))
    assert await wakeup.wait(20)
    await driver.arun(settle(claimed[1:], State.FAILED))
    await driver.arun(ops.Replay((claimed[1].id,)))
    assert await wakeup.wait(20)
    await wakeup.aclose()
    await driver.aclose()


async def test_a_wakeup_listens_again_after_its_connection_was_cut(
    postgres_url: str, proxy_factory: ProxyFactory, unique_name: str
) -> None:
    """B026: five times in a row; nothing is raised, and the next job rings."""
    proxy = proxy_factory(postgres_url)
    driver = open_driver(proxy.url, unique_name)
    await driver.arun(ops.Prepare())
    wakeup = driver.wakeup("w", ["q"])
    await listening(wakeup)
    for n in range(5):
        proxy.cut()
        await listening(wakeup)  # a new connection rings: what came meanwhile is unknown
        await repeat(driver.arun, enqueue(job(str(n))))
        assert await wakeup.wait(20)
    proxy.refuse()
    assert not await wakeup.wait(0.2)
    proxy.refuse(on=False)
    await listening(wakeup)
    await wakeup.aclose()
    await driver.aclose()


async def test_a_wakeup_that_is_closed_while_it_connects_leaves_nothing(
    postgres_url: str, proxy_factory: ProxyFactory, unique_name: str
) -> None:
    proxy = proxy_factory(postgres_url)
    proxy.swallow()
    wakeup = open_driver(proxy.url, unique_name).wakeup("w", ["q"])
    assert not await wakeup.wait(0.1)
    await wakeup.aclose()
    assert not await wakeup.wait(20)


def test_a_busy_queue_sends_few_hints_and_never_loses_the_last() -> None:
    sent: list[list[str]] = []
    bell = Bell(sent.append)
    at_once = [bell.due(["q"]) for _ in range(100)]
    assert at_once[0] == ["q"]
    assert bell.due(["other"]) == ["other"]
    wait_until(lambda: sent)
    assert sent == [["q"]]
    assert sum(map(len, at_once)) <= 2
    bell.due(["q"])
    bell.close()
    assert [queue for queues in sent for queue in queues].count("q") >= 1
    bell.close()


def test_the_last_hint_is_sent_before_a_close() -> None:
    sent: list[str] = []
    bell = Bell(sent.extend)
    assert bell.due(["q"]) == ["q"]
    bell.due(["q"])
    bell.close()
    assert sent == ["q"]
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_hints_name_their_queues() -> None:
    assert queues_of(enqueue(job("a"), job("b", "r")), []) == {"q", "r"}
    assert queues_of(enqueue(job("a", "q" * 9000)), []) == {EVERYBODY}
    assert queues_of(ops.Replay(("a",)), ops.Replayed(["a"], {})) == {EVERYBODY}
    orphan = ops.Orphan("a", "q", 1, "w", None, alone=True)
    assert queues_of(ops.Rescue(("r",)), ops.Rescued([orphan])) == {"q"}
    ends = tuple(ops.Outcome("a", state.value, 1, state) for state in (State.READY, State.SCHEDULED, State.FAILED))
    assert queues_of(ops.Settle("w", ends), [True] * 3) == {"ready", "scheduled"}
    assert queues_of(ops.Promote(("a", "b")), 1) == {"a", "b"}
