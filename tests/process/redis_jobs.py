"""Short ways to put jobs into a Redis store and to work them off, in both colours."""

import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.stores.redis import RedisStore

LEASE = 30_000_000
_numbers = itertools.count(1_000)  # above those that a test gives by itself
Run = Callable[[Any], Any]


def open_driver(url: str, name: str, **options: Any) -> RedisDriver:
    return RedisDriver(url, RedisStore(name=name, **options))


def job(id: str, queue: str = "q", **options: Any) -> ops.NewJob:
    options.setdefault("body", b"{}")
    return ops.NewJob(id, queue, "task", **options)


def enqueue(*jobs: ops.NewJob) -> ops.Enqueue:
    return ops.Enqueue(jobs)


def claim(number: int, limit: int = 100, *, worker: str = "w", queues: tuple[str, ...] = ("q",)) -> ops.Claim:
    return ops.Claim(worker, number, queues, limit, LEASE)


def settle(jobs: Iterable[ops.ClaimedJob], state: State = State.SUCCEEDED, **options: Any) -> ops.Settle:
    outcomes = tuple(ops.Outcome(each.id, each.queue, each.token, state, **options) for each in jobs)
    return ops.Settle(options.get("worker", "w"), outcomes)


def drain(run: Run, *, limit: int = 100, worker: str = "w", queues: tuple[str, ...] = ("q",)) -> list[str]:
    """Work everything off; the ids in the order in which they were claimed."""
    done: list[str] = []
    while True:
        claimed = run(claim(next(_numbers), limit, worker=worker, queues=queues))
        if not claimed.jobs:
            return done
        outcomes = tuple(ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in claimed.jobs)
        assert all(run(ops.Settle(worker, outcomes)))
        done += [each.id for each in claimed.jobs]


async def repeat(arun: Callable[[Any], Awaitable[Any]], operation: Any, attempts: int = 200) -> Any:
    """Until the store answers: every operation may be repeated."""
    from headrace.errors import StoreUnavailable
    from tests.waiting import await_until

    answers: list[Any] = []

    async def answered() -> bool:
        try:
            answers.append(await arun(operation))
        except StoreUnavailable:
            return False
        return True

    await await_until(answered, timeout=20, what="an answer")
    return answers[0]
