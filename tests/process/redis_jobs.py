"""Short ways to put jobs into a Redis store and to work them off, in both colours."""

import itertools
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.drivers.redis.address import parse
from headrace.errors import StoreUnavailable
from headrace.stores.redis import RedisStore
from tests.waiting import await_until

LEASE = 30_000_000
_numbers = itertools.count(1_000)  # above those that a test gives by itself
Run = Callable[[Any], Any]


def open_driver(url: str, name: str, **options: Any) -> RedisDriver:
    return RedisDriver(url, RedisStore(name=name, allow_eviction=parse(url).allow_eviction, **options))


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
    answers: list[Any] = []

    async def answered() -> bool:
        try:
            answers.append(await arun(operation))
        except StoreUnavailable:
            return False
        return True

    await await_until(answered, timeout=20, what="an answer")
    return answers[0]


def ask(port: int, request: bytes) -> str:
    """The raw answer to an inline command."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        return connection.recv(65536).decode()


def twice(driver: RedisDriver) -> Callable[[Any], Any]:
    """`run` of the driver, repeated once: the first attempt may meet a connection that was cut."""

    def run(operation: Any) -> Any:
        try:
            return driver.run(operation)
        except StoreUnavailable:
            return driver.run(operation)

    return run
