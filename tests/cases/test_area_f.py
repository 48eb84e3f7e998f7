"""Delayed jobs: they wait in the store, not in a worker. Cases B075 and B076."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from headrace import Headrace
from tests.cases.conftest import StartWorks, url_of
from tests.cases.running import working
from tests.contract.stores import DATABASES
from tests.waiting import await_until, wait_until

MEGABYTE = 1024 * 1024

TASKS = """
@app.task(name="later")
async def later(number: int, text: str) -> None:
    say("later")

@app.task(name="now")
async def now() -> None:
    say("now")
"""


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
def test_jobs_for_later_do_not_fill_a_worker(works: StartWorks) -> None:
    """B075: 50,000 jobs due in an hour; the worker grows by less than 20 MB, and a job for now runs within a second."""
    shop = works(TASKS)
    worker = shop.start()
    shop.app.tasks["now"].enqueue()
    shop.wait_for("now")
    before = resident(worker.pid)
    later = shop.app.tasks["later"].using(run_after=3600)
    later.enqueue_many({"number": number, "text": "x" * 100} for number in range(50_000))
    waited = []
    for number in range(20):
        start = time.monotonic()
        shop.app.tasks["now"].enqueue()
        shop.wait_for("now", number + 2)
        waited.append(time.monotonic() - start)
    assert sorted(waited)[10] < 1
    assert resident(worker.pid) - before < 20 * MEGABYTE
    wait_until(lambda: shop.app.jobs.queues()[0].running == 0, what="the end of the last job that has spoken")
    (queue,) = shop.app.jobs.queues()
    assert (queue.scheduled, "later" in shop.said) == (50_000, False)


@pytest.mark.parametrize("kind", ["sqlite", "redis", *DATABASES])
async def test_due_jobs_go_to_whoever_is_free(kind: str, request: pytest.FixtureRequest, unique_name: str) -> None:
    """B076: 30 jobs due at one moment; a worker that came after they were enqueued does its share."""
    url, done = url_of(kind, request), Counter[str]()

    def app(worker: str) -> Headrace:
        app = Headrace(url, name=unique_name, lease=3, busy_timeout=1)

        @app.task(name="report")
        async def report() -> None:
            over = asyncio.Event()
            asyncio.get_running_loop().call_later(0.1, over.set)
            await over.wait()
            done[worker] += 1

        return app

    first, second = app("first"), app("second")
    async with working(first, concurrency=2):
        await first.tasks["report"].using(run_after=1.0).aenqueue_many([{}] * 30)
        async with working(second, concurrency=2):
            await await_until(lambda: done.total() == 30, 20, "30 jobs")
    assert min(done["first"], done["second"]) >= 10, done
    for each in (first, second):
        await each.aclose()
