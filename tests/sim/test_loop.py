"""The loop on virtual time, and the groups that are frozen and killed in it."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.testing.clock import VirtualClock
from headrace.testing.loop import Deadlock, Group, VirtualLoop, run_virtual

DAY = 24 * 3600


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


class Clockwork:
    """A process that counts to `most`, one a second; `ended` when its `finally` was reached."""

    def __init__(self, most: int = 1_000) -> None:
        self.most = most
        self.count = 0
        self.ended = False

    async def run(self) -> None:
        try:
            tick = asyncio.Event()
            while self.count < self.most:
                asyncio.get_running_loop().call_later(1, tick.set)
                await tick.wait()
                tick.clear()
                self.count += 1
        finally:
            self.ended = True


async def pass_time(seconds: float) -> None:
    """Let virtual time pass."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


def test_a_day_takes_no_time() -> None:
    clock = VirtualClock()
    started = time.monotonic()
    run_virtual(pass_time(DAY), clock)
    assert clock.monotonic() == DAY
    assert time.monotonic() - started < 5


def test_timers_come_in_order_and_on_time(loop: VirtualLoop) -> None:
    seen: list[tuple[float, str]] = []
    for delay, name in ((2.5, "late"), (1.0, "first"), (1.1, "second"), (0.0000004, "soon")):
        loop.call_later(delay, lambda name=name: seen.append((loop.time(), name)))
    loop.run_until_complete(pass_time(3))
    assert [name for _, name in seen] == ["soon", "first", "second", "late"]
    assert [round(at, 5) for at, _ in seen] == [0, 1, 1.1, 2.5]


def test_a_deadlock_names_who_waits(loop: VirtualLoop) -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    task = loop.create_task(forever(), name="the waiting one")
    with pytest.raises(Deadlock, match="the waiting one"):
        loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))


def test_threads_are_refused(loop: VirtualLoop) -> None:
    async def use_a_thread() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        loop.run_until_complete(use_a_thread())
    errors: list[RuntimeError] = []

    def intrude() -> None:
        try:
            loop.call_soon_threadsafe(print)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_a_frozen_group_stands_still_and_catches_up(loop: VirtualLoop) -> None:
    group, work = Group("one"), Clockwork()
    group.start(loop, work.run())
    loop.run_until_complete(pass_time(3.5))
    group.freeze()
    loop.run_until_complete(pass_time(100))
    assert work.count == 3
    group.thaw()
    loop.run_until_complete(pass_time(2.5))
    assert work.count == 6
    bury(loop, group)


def test_a_timer_that_is_cancelled_in_the_frost_does_not_come_back(loop: VirtualLoop) -> None:
    group, came = Group("one"), []
    handles: list[asyncio.TimerHandle] = []

    async def set_timer() -> None:
        handles.append(asyncio.get_running_loop().call_later(2, came.append, 1))

    loop.run_until_complete(group.start(loop, set_timer()))
    group.freeze()
    loop.run_until_complete(pass_time(5))
    handles[0].cancel()
    group.thaw()
    loop.run_until_complete(pass_time(1))
    assert came == []


def test_a_killed_group_runs_nothing_any_more_not_even_its_end(loop: VirtualLoop) -> None:
    group, work = Group("one"), Clockwork()
    task = group.start(loop, work.run())
    loop.run_until_complete(pass_time(3.5))
    group.kill()
    task.cancel()
    group.thaw()
    loop.run_until_complete(pass_time(100))
    assert (work.count, work.ended, task.done()) == (3, False, False)
    bury(loop, group)
    assert work.ended


def bury(loop: VirtualLoop, group: Group) -> None:
    group.revive()
    for task in group.unfinished():
        task.cancel()
    loop.run_until_complete(pass_time(1))
    assert group.unfinished() == []
