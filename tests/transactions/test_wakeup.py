"""After the commit of a session or of an atomic() block workers are woken; after a rollback nobody is."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.core import operations as ops
from headrace.core.outbox import QUEUE
from headrace.core.states import State
from headrace.testing.conformance.harness import job, outcome
from tests.transactions.callers import Caller
from tests.transactions.test_following import settled


@pytest.fixture(params=["session-pysqlite", "session-psycopg", "session-pymysql", "django-sqlite", "django-psycopg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def woken(app: Headrace, action: Callable[[], None], queue: str = "default") -> bool:
    """Whether an idle worker (or a relay) hears of what `action` does, long before its poll."""
    wakeup = app.driver.wakeup("idle", [queue])
    try:
        while await wakeup.wait(0.2):  # what rang before
            pass
        waiting = asyncio.create_task(wakeup.wait(5))
        await asyncio.to_thread(action)
        return await waiting
    finally:
        await wakeup.aclose()
        await app.aclose()


def test_a_commit_wakes_workers(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    def act() -> None:
        caller.order(1)
        caller.enqueue(task, 1)
        caller.commit()

    assert asyncio.run(woken(app, act))


def test_a_commit_wakes_workers_for_the_jobs_that_follow(app: Headrace, caller: Caller) -> None:
    app.driver.run(ops.Enqueue((job("first", "q"),)))
    (claimed,) = app.driver.run(ops.Claim("w", 1, ("q",), 1, 3600 * 1_000_000)).jobs

    def act() -> None:
        caller.order(1)
        assert settled(app, caller, outcome(claimed, State.SUCCEEDED, then=(job("then", "q"),))) == [True]
        caller.commit()

    assert asyncio.run(woken(app, act, "q"))


def test_a_commit_wakes_relays(app: Headrace, caller: Caller) -> None:
    def act() -> None:
        caller.order(1)
        app.outbox.add(caller.handle, "OrderCreated", payload=1)
        caller.commit()

    assert asyncio.run(woken(app, act, QUEUE))
