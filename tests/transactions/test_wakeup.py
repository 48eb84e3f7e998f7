"""After the commit of a session or of an atomic() block workers are woken; after a rollback nobody is."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.core.outbox import QUEUE
from tests.transactions.callers import Caller


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


def test_a_commit_wakes_relays(app: Headrace, caller: Caller) -> None:
    def act() -> None:
        caller.order(1)
        app.outbox.add(caller.handle, "OrderCreated", payload=1)
        caller.commit()

    assert asyncio.run(woken(app, act, QUEUE))
