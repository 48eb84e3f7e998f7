"""Workers that start themselves anew every few seconds: what one leaves to the next."""

import asyncio

import pytest

from headrace import Headrace
from headrace.core.operations import Claim
from headrace.worker import Exit, Worker, WorkerOptions, handover
from headrace.worker.handover import Handover
from tests.worker.working import virtually, work_for


@pytest.mark.parametrize("hands_over", [True, False])
def test_workers_that_live_for_less_than_a_heartbeat_rescue_too(hands_over: bool) -> None:
    """3b.4: each carries its predecessor's clean beats on, and none rescues before they are a heartbeat apart."""

    async def main(app: Headrace) -> tuple[float | None, int]:
        @app.task
        async def work() -> None: ...

        await work.aenqueue()
        await app.driver.arun(Claim("dead", 1, ("default",), 1, 1_000_000))
        clock = asyncio.get_running_loop().time
        began, left = clock(), None
        for life in range(1, 30):
            worker = Worker(app, WorkerOptions(queues=("default",), max_age=2.0), id=f"w{life}", threaded_heart=False)
            worker.inherited = left
            assert await worker.run() is Exit.RECYCLE
            if hands_over:
                left = worker.heart.handover()
            if worker.executor.finished:
                return clock() - began, life
        return None, life

    seconds, lives = virtually(main)
    if hands_over:
        assert seconds is not None
        assert 10.0 <= seconds <= 16.0  # a heartbeat is 10 s, a life 2
        assert lives > 4
    else:
        assert seconds is None


def test_a_handover_that_is_old_or_unreadable_counts_for_nothing() -> None:
    environment: dict[str, str] = {}
    assert handover.take(environment) is None
    for text in ("", "{", "[1]", '{"clean_beats":"x"}'):
        assert handover.take({handover.VARIABLE: text}) is None
    left = Handover(5, clean_at=0.0, store_us=1, learnt_at=0.0)
    handover.leave(left, environment)
    assert handover.take(environment) == left
    assert environment == {}

    async def main(app: Headrace) -> int:
        await work_for(1000)
        worker = Worker(app, WorkerOptions(queues=("default",)), id="w", threaded_heart=False)
        worker.inherited = left
        run = asyncio.create_task(worker.run())
        await worker.started.wait()
        beats = worker.heart.clean_beats
        worker.stop()
        await run
        return beats

    assert virtually(main) <= 1
