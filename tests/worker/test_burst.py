"""A worker that ends when nothing is left looks once more for what its last jobs have set off."""

import asyncio
import logging
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.operations import Claim, Operation, Settle
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore


class Slow(MemoryDriver):
    """A store that takes a report only after it has answered one more claim."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.claimed = asyncio.Event()

    async def arun(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Settle):
            self.claimed.clear()
            await self.claimed.wait()
        answer = await super().arun(operation)
        if isinstance(operation, Claim):
            self.claimed.set()
        return answer


async def test_a_job_that_is_enqueued_with_the_end_of_the_last_one_is_run() -> None:
    app = Headrace("memory://")
    app.driver = Slow()
    found: list[str] = []

    @app.poll(every="1h", max_polls=2)
    async def ask() -> str:
        return "paid"

    @ask.on_final
    async def note(result: str) -> None:
        found.append(result)

    await ask.aenqueue()
    await app.worker(burst=True).run()
    assert found == ["paid"]


async def test_what_has_been_kept_for_long_enough_is_pruned_before_its_end() -> None:
    app = Headrace("memory://", keep_failed_most=2)

    @app.task(retry=1)
    async def fails() -> None:
        raise ValueError("no")

    await fails.aenqueue_many([{}] * 5)
    await app.worker(burst=True).run()
    assert len((await app.ajobs.list("failed")).jobs) == 2


async def test_it_says_that_others_may_be_at_work(caplog: pytest.LogCaptureFixture) -> None:
    app, release, begun = Headrace("memory://"), asyncio.Event(), asyncio.Event()

    @app.task
    async def last() -> None:
        begun.set()
        await release.wait()

    await last.aenqueue()
    other = asyncio.create_task(app.worker(burst=True).run())
    await begun.wait()
    caplog.set_level(logging.INFO)
    await app.worker(burst=True).run()
    said = "nothing is ready, and nothing runs here: stopping (what other workers run is not waited for)"
    assert said in caplog.messages
    release.set()
    await other
