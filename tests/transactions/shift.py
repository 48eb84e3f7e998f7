"""A worker at work in the test's own process, in a thread, while the test looks on from outside."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from headrace import Headrace, current_job
from headrace.context import JobContext
from headrace.core.operations import Outcome
from headrace.drivers.borrowed import borrow
from headrace.middleware import Middleware
from headrace.worker import Worker
from tests.transactions.callers import KINDS, Caller
from tests.waiting import wait_until
from tests.worker.working import working

Open = Callable[[], AbstractContextManager[Caller]]


class Told(Middleware):
    """Notes how runs ended."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def ended(self, job: JobContext | None, outcome: Outcome) -> None:
        self.states.append(outcome.state.value)


def complete(caller: Caller, job: JobContext | None = None) -> None:
    """The running job, in whatever colour the caller has."""
    job = job or current_job()
    if caller.awaited:
        caller.do(job.acomplete(transaction=caller.handle))
    else:
        job.complete(transaction=caller.handle)


@contextmanager
def opened(kind: str, place: str, table: str) -> Iterator[Caller]:
    """A connection of the handler's own, in the handler's thread."""
    mine = KINDS[kind][1](place, table)
    try:
        yield mine
    finally:
        mine.close()


@contextmanager
def at_work(app: Headrace, **options: Any) -> Iterator[Worker]:
    """A worker of this app inside the block."""
    ready, over, box = threading.Event(), threading.Event(), []

    async def work() -> None:
        async with working(app, **options) as worker:
            box.append(worker)
            ready.set()
            await asyncio.to_thread(over.wait)
        await app.aclose()

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    try:
        wait_until(ready.is_set, 20, "the worker to start")
        yield box[0]
    finally:
        over.set()
        thread.join(60)
        assert not thread.is_alive()


def beaten(worker: Worker) -> None:
    """Wait for two heartbeats that count: the second was sent, and answered, after this call."""
    for _ in range(2):
        before = worker.heart.handover().clean_at
        wait_until(lambda before=before: worker.heart.handover().clean_at > before, 20, "a heartbeat")


def orders(caller: Caller) -> list[int]:
    """What is in the caller's table."""
    caller.order(0)  # begins, for those who do not do so by themselves
    loan, text = borrow(caller.handle), f"select number from {caller.table} where number > 0 order by number"
    rows = caller.do(loan.aquery(text, {})) if caller.awaited else loan.query(text, {})
    caller.rollback()
    return [number for (number,) in rows]


def state(app: Headrace, id: str) -> str:
    """Where a job is; "gone" when it has left the store."""
    job = app.jobs.get(id)
    return "gone" if job is None else job.state


def wait_for(app: Headrace, id: str, *states: str) -> str:
    """Wait until a job is in one of these states."""
    return wait_until(lambda: found if (found := state(app, id)) in states else "", 30, f"job {id} to be {states}")
