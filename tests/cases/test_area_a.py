"""Workers that die all at once, and workers that cannot say that they live. Cases B020 and B021."""

import asyncio
import threading
import time
from typing import Any

import pytest

from headrace import Headrace, State, StoreUnavailable
from headrace.core import operations as ops
from headrace.core.ports import Driver
from tests.cases.conftest import StartWorks, url_of
from tests.cases.running import ended, working
from tests.contract.stores import DATABASES
from tests.waiting import await_until, wait_until

TASKS = """
@app.task(name="report", retry=1)
def report(number: int) -> None:
    say("started", number)
    if not os.path.exists("second-life"):
        threading.Event().wait(60)
    say("done", number)
"""


def test_jobs_run_again_after_everybody_was_killed(works: StartWorks) -> None:
    """B020, as far as there is no supervisor yet: no worker was left to look after the others; nothing has failed."""
    shop = works(TASKS)
    workers = [shop.start("--concurrency", "2") for _ in range(2)]
    ids = [job.id for job in shop.app.tasks["report"].enqueue_many({"number": n} for n in range(4))]
    wait_until(lambda: len(shop.said) == 4, 30, "four running jobs")
    for worker in workers:
        worker.kill()
    for worker in workers:
        worker.wait()
    (shop.folder / "second-life").touch()
    shop.start()
    for n in range(4):
        shop.wait_for(f"done {n}")
    wait_until(lambda: all(shop.app.jobs.get(id) is None for id in ids), 10, "the end of all jobs")
    assert shop.app.jobs.list(State.FAILED).jobs == ()
    assert sorted(shop.said) == sorted([f"started {n}" for n in range(4)] * 2 + [f"done {n}" for n in range(4)])


class Breathless:
    """A driver that refuses heartbeats while `refusing`."""

    def __init__(self, inner: Driver) -> None:
        self._inner = inner
        self.refusing = threading.Event()
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _check(self, operation: ops.Operation[Any]) -> None:
        if isinstance(operation, ops.Beat) and self.refusing.is_set():
            self.refused += 1
            raise StoreUnavailable("no heartbeat is let through")

    def run(self, operation: ops.Operation[Any]) -> Any:
        self._check(operation)
        return self._inner.run(operation)

    async def arun(self, operation: ops.Operation[Any]) -> Any:
        self._check(operation)
        return await self._inner.arun(operation)


@pytest.mark.parametrize("kind", ["sqlite", "redis", *DATABASES])
async def test_a_worker_whose_heartbeats_failed_comes_back(
    kind: str, request: pytest.FixtureRequest, unique_name: str
) -> None:
    """B021: no beat for three leases, while it runs a job; then it is registered and runs the next one, by itself."""
    app = Headrace(url_of(kind, request), name=unique_name, lease=1, busy_timeout=0.3)
    app.driver = driver = Breathless(app.driver)  # type: ignore[assignment]
    over, done = asyncio.Event(), []

    @app.task(name="note")
    async def note(number: int) -> None:
        if number == 1 and not over.is_set():
            await over.wait()
        done.append(number)

    async with working(app) as worker:
        await note.aenqueue(1)
        await await_until(lambda: worker.executor.running == 1)
        driver.refusing.set()
        since = time.monotonic()
        await await_until(lambda: time.monotonic() - since > 3 and driver.refused >= 3, 20)
        driver.refusing.clear()
        over.set()
        healed = time.monotonic()
        job = await note.aenqueue(2)
        assert await ended(app, job.id) is None
        await await_until(lambda: _lives(app, worker.id), what="its registration")
        assert time.monotonic() - healed < 10
        await await_until(lambda: {1, 2} == set(done))
    await app.aclose()


async def _lives(app: Headrace, id: str) -> bool:
    now_us = app.clock.unix_us()
    return any(view.worker == id and view.lease_until_us > now_us for view in await app.ajobs.workers())
