"""B036: a store without room when the result of a block is to be stored: the effect has happened already."""

import asyncio
from typing import TypeVar

import pytest

from headrace import Headrace, StoreFull
from headrace.core.once_records import EndOnce
from headrace.core.operations import Operation
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore

R = TypeVar("R")


class Full(MemoryDriver):
    """Has no room for the first two ends."""

    refusals = 2

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, EndOnce) and self.refusals:
            self.refusals -= 1
            raise StoreFull
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
