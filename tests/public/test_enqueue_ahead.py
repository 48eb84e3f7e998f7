"""Many jobs of one call: the next ones are made ready while those before them are on their way."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace import Headrace
from tests.public.drivers import WatchedDriver, define


def test_the_next_chunk_is_read_while_one_is_on_its_way(app: Headrace, driver: WatchedDriver) -> None:
    """The store answers the first one only when the second has been read, and the loop has gone on meanwhile."""
    turns = 0

    def calls() -> Iterator[dict[str, int]]:
        for number in range(2_500):
            if number == 1_999:
                driver.gate.set()  # type: ignore[union-attr]
            yield {"order_id": number}

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def enqueue_all() -> list[str]:
        driver.gate = asyncio.Event()
        other = asyncio.create_task(turn())
        jobs = await define(app).aenqueue_many(calls())
        other.cancel()
        return [job.id for job in jobs]

    ids = asyncio.run(asyncio.wait_for(enqueue_all(), 30))
    assert [len(operation.jobs) for operation in driver.enqueues()] == [1_000, 1_000, 500]
    assert [job.id for operation in driver.enqueues() for job in operation.jobs] == ids
    assert turns >= 50


def test_a_call_that_is_cancelled_leaves_no_task_behind(app: Headrace, driver: WatchedDriver) -> None:
    async def cancel_midway() -> int:
        driver.gate = asyncio.Event()
        midway = asyncio.Event()

        def calls() -> Iterator[dict[str, int]]:
            for number in range(3_000):
                if number == 1_500:
                    midway.set()  # the first chunk is at the gate
                yield {"order_id": number}

        bulk = asyncio.create_task(define(app).aenqueue_many(calls()))
        await midway.wait()
        bulk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bulk
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(cancel_midway()) == 1
    assert not driver.stored()
