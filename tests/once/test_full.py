"""A store that stumbles while a block runs, or has no room for its result (B036): the key is kept."""

import asyncio
from typing import TypeVar

import pytest

from headrace import Headrace, StoreFull
from headrace.core.once_records import EndOnce, RenewOnce
from headrace.core.operations import Operation
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore
from tests.waiting import await_until, wait_until

R = TypeVar("R")


class Full(MemoryDriver):
    """Has no room for the first two ends, and fails each second renewal."""

    refusals = 2
    renewals = 0

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, EndOnce) and self.refusals:
            self.refusals -= 1
            raise StoreFull
        if isinstance(operation, RenewOnce):
            self.renewals += 1
            if self.renewals % 2:
                raise RuntimeError("what no library documents")
        return super().run(operation)

    async def arun(self, operation: Operation[R]) -> R:
        return self.run(operation)


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_the_result_is_stored_once_there_is_room(colour: str) -> None:
    app = Headrace("memory://")
    app.driver = driver = Full(MemoryStore())

    def block() -> None:
        with app.once("k") as run:
            run.result = 17

    if colour == "sync":
        await asyncio.to_thread(block)
    else:
        async with app.once("k") as run:
            run.result = 17
    assert driver.refusals == 0
    async with app.once("k") as later:
        assert (later.done, later.result) == (True, 17)


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_renewal_that_fails_is_followed_by_others(colour: str) -> None:
    app = Headrace("memory://")
    app.driver = driver = Full(MemoryStore())

    def block() -> bool:
        with app.once("k", lease=1) as run:
            wait_until(lambda: driver.renewals >= 4, 20, "renewals")
            return run.lost

    if colour == "sync":
        assert not await asyncio.to_thread(block)
    else:
        async with app.once("k", lease=1) as run:
            await await_until(lambda: driver.renewals >= 4, 20)
            assert not run.lost
