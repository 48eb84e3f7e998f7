"""Faults between claim and end, wherever they are raised: no job is lost, no slot leaks, no loop dies."""

import asyncio
import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from headrace import Cancel, Fail, Fixed, Headrace, Retry, RetryIn, Snooze, current_job
from headrace.context import JobContext
from headrace.core.operations import Claim, Operation
from headrace.core.ports import Wakeup
from headrace.drivers.memory import MemoryDriver
from headrace.middleware import Middleware, Run
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from headrace.worker import Exit, Worker, WorkerOptions, upkeep
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, virtually, working_virtually

AGAIN = Retry(max_attempts=5, backoff=Fixed(0))


class Trap(Exception):
    """What the tests inject."""


class Traps(Middleware):
    """Raises before the first run of each job."""

    def __init__(self) -> None:
        self.sprung: set[str] = set()

    async def around(self, job: JobContext, run: Run) -> Any:
        if job.id not in self.sprung:
            self.sprung.add(job.id)
            raise Trap("between claim and start")
        return await run()


@dataclasses.dataclass
class Tricky:
    """A value whose validation runs code of the user's, which fails in ways that no library expects."""

    number: int

    def __post_init__(self) -> None:
        TRICKS[0](self.number)


TRICKS: list[Callable[[int], None]] = [lambda number: None]


async def all_succeed_two_at_once(app: Headrace, worker: Worker, ids: Sequence[str], most: list[int]) -> Counter[int]:
    """Wait for all jobs; the attempts each has used, and that two ran at once at the end."""
    jobs = [await ended(app, id, "succeeded") for id in ids]
    assert max(most) == 2
    assert worker.executor.running == 0
    return Counter(job.counts["attempts"] for job in jobs)


def test_a_fault_in_middleware_costs_an_attempt_and_no_slot() -> None:
    """B019: 50 times an exception after the claim and before the start, with two slots."""

    async def main(app: Headrace) -> Counter[int]:
        alive, most = 0, [0]

        @app.task(retry=AGAIN, keep=KEEP)
        async def work() -> None:
            nonlocal alive
            alive += 1
            most.append(alive)
            await asyncio.sleep(0)
            alive -= 1

        app.middleware.append(Traps())
        async with working_virtually(app, concurrency=2) as worker:
            ids = [job.id for job in await work.aenqueue_many([{}] * 50)]
            return await all_succeed_two_at_once(app, worker, ids, most)

    assert virtually(main) == Counter({1: 50})


def test_a_fault_while_arguments_are_read_ends_one_attempt() -> None:
    """B019: validation raises what nobody expects; that job is tried again, and its neighbours are not touched."""

    async def main(app: Headrace) -> tuple[set[int], Counter[int]]:
        sprung: set[int] = set()
        alive, most = 0, [0]

        def trap(number: int) -> None:
            if number % 2 and number not in sprung:
                sprung.add(number)
                raise Trap(f"while reading {number}")

        @app.task(retry=AGAIN, keep=KEEP)
        async def work(value: Tricky) -> None:
            nonlocal alive
            alive += 1
            most.append(alive)
            await asyncio.sleep(0)
            alive -= 1

        ids = [job.id for job in await work.aenqueue_many([{"value": Tricky(n)} for n in range(100)])]
        TRICKS[:] = [trap]
        try:
            async with working_virtually(app, concurrency=2) as worker:
                attempts = await all_succeed_two_at_once(app, worker, ids, most)
                return sprung, attempts
        finally:
            TRICKS[:] = [lambda number: None]

    sprung, attempts = virtually(main)
    assert len(sprung) == 50
    assert attempts == Counter({0: 50, 1: 50})


class DeafWakeup:
    """Listening fails at once, every time."""

    async def wait(self, timeout: float) -> bool:
        raise Trap("the ear is broken")

    async def aclose(self) -> None: ...


class DeafDriver(MemoryDriver):
    """Counts claims."""

    claims = 0

    async def arun(self, operation: Operation[Any]) -> Any:
        self.claims += isinstance(operation, Claim)
        return await super().arun(operation)

    def wakeup(self, worker: str, queues: Sequence[str]) -> Wakeup:  # type: ignore[override]
        return DeafWakeup()


def test_a_broken_wakeup_is_reported_and_costs_no_more_than_latency(caplog: pytest.LogCaptureFixture) -> None:
    """B026: the worker goes on consuming, says what is wrong, and does not spin."""
    clock = VirtualClock()
    app = Headrace("memory://")
    app.driver = driver = DeafDriver(MemoryStore(now=clock))

    @app.task(keep=KEEP)
    async def work() -> None: ...

    async def main() -> None:
        async with working_virtually(app):
            began = clock.monotonic()
            for _ in range(3):
                await ended(app, (await work.aenqueue()).id, "succeeded")
            await await_until(lambda: clock.monotonic() - began > 60, 120)

    run_virtual(main(), clock)
    assert driver.claims < 100
    assert "the ear is broken" in caplog.text


def test_failures_do_not_fill_the_store() -> None:
    """B025: 3,000 more failures than are kept are gone within two rounds, the oldest first, and their keys are free."""

    async def main(app: Headrace) -> tuple[list[int], list[bool]]:
        app.config = msgspec.structs.replace(app.config, keep_failed_most=100)

        @app.task(retry=1, unique="n{number}")
        async def fail(number: int) -> None:
            raise Trap("as always")

        failed: list[int] = []
        async with working_virtually(app, concurrency=1) as worker:
            await fail.aenqueue_many([{"number": number} for number in range(3100)])
            await await_until(lambda: worker.executor.finished == 3100, 60)
            loop = asyncio.get_running_loop()
            until = loop.time() + 2.5 * upkeep.PRUNE_S
            await await_until(lambda: loop.time() > until, 1000)
        page = await app.ajobs.list(limit=1000)
        while page.jobs:
            failed += [int((job.unique or "n-1")[1:]) for job in page.jobs]
            if page.next is None:
                break
            page = await app.ajobs.list(limit=1000, cursor=page.next)
        again = await fail.aenqueue_many([{"number": number} for number in (0, 1, 3099)])
        return failed, [job.duplicate for job in again]

    failed, duplicates = virtually(main)
    assert sorted(failed) == list(range(3000, 3100))
    assert duplicates == [False] * 3


def test_max_jobs_ends_in_a_fresh_start() -> None:
    """B115: after so many jobs the worker asks to be started anew; it runs exactly those it may."""

    async def main(app: Headrace) -> tuple[Exit, int]:
        @app.task
        async def work() -> None: ...

        options = WorkerOptions(queues=("default",), max_jobs=7, concurrency=3)
        worker = Worker(app, options, id="w", threaded_heart=False)
        await work.aenqueue_many([{}] * 20)
        return await worker.run(), worker.executor.finished

    assert virtually(main) == (Exit.RECYCLE, 7)


def test_the_log_names_the_error(caplog: pytest.LogCaptureFixture) -> None:
    """The message on every retry, the traceback once, when the job has failed; nothing loud about a release."""

    async def main(app: Headrace) -> str:
        @app.task(retry=Retry(max_attempts=2, backoff=Fixed(1)))
        async def charge(order: int) -> None:
            raise Trap(f"no credit for order {order}, run {current_job().attempt}")

        @app.task
        async def endless() -> None:
            await asyncio.Event().wait()

        async with working_virtually(app) as worker:
            id = (await charge.aenqueue(order=17)).id
            await ended(app, id, "failed")
            await endless.aenqueue()
            await await_until(lambda: worker.executor.running == 1)
        return id

    with caplog.at_level(logging.INFO):
        id = virtually(main)
    retried, failed = [record for record in caplog.records if record.getMessage().startswith(f"job {id}")]
    assert retried.getMessage() == f"job {id}: scheduled (Trap), due in 1 s: no credit for order 17, run 1"
    assert (retried.levelname, retried.exc_text) == ("WARNING", None)
    assert failed.getMessage() == f"job {id}: failed (Trap): no credit for order 17, run 2"
    lines = logging.Formatter("%(levelname)s %(message)s").format(failed).splitlines()
    assert lines[0].startswith("ERROR job ")
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[-1].endswith("Trap: no credit for order 17, run 2")
    (released,) = [record for record in caplog.records if "(released)" in record.getMessage()]
    assert released.levelname == "INFO"


def test_the_log_says_why_in_the_words_of_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    """Reasons of verdicts and of rules, and no word twice."""

    class Busy(Exception):
        retry_after = 1200

    async def main(app: Headrace) -> list[str]:
        endings = {
            "snooze": Snooze(30, "waiting for stock"),
            "later": RetryIn(5, "half done"),
            "fail": Fail("no such order"),
            "cancel": Cancel("the customer left"),
            "bare": Fail(),
            "busy": Busy("429"),
            "trap": Trap("gone"),
        }

        @app.task(retry=Retry(on={Busy: Snooze(30, "their server rests"), Trap: Cancel("not wanted")}))
        async def work(ending: str) -> None:
            raise endings[ending]

        ids = [(await work.aenqueue(ending=ending)).id for ending in endings]
        async with working_virtually(app) as worker:
            await await_until(lambda: worker.executor.finished >= 7)
        return ids

    with caplog.at_level(logging.INFO):
        ids = virtually(main)
    texts = [text.partition(": ") for text in caplog.messages]
    assert [rest for id in ids for start, _, rest in texts if start == f"job {id}"] == [
        "snoozed for 30 s: waiting for stock",
        "scheduled (retry), due in 5 s: half done",
        "failed: no such order",
        "cancelled: the customer left",
        "failed",
        "scheduled (Busy), due in 1,200 s: 429; their server rests",
        "cancelled (Trap): not wanted",
    ]


def test_what_is_given_back_unstarted_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def lines(text: str, level: int) -> list[str]:
        return [one.getMessage() for one in caplog.records if text in one.getMessage() and one.levelno >= level]

    async def main(app: Headrace) -> None:
        release = asyncio.Event()

        @app.task
        async def work(number: int) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(release.wait(), 0.001 if number < 300 else None)

        await work.aenqueue_many([{"number": number} for number in range(400)])
        async with working_virtually(app, concurrency=2):  # so fast that it claims ahead, until it stands still
            await await_until(lambda: lines("(released)", logging.DEBUG))
            told = [int(line.split()[2]) for line in lines("claimed ahead: every slot is busy", logging.INFO)]
            assert sum(told) == len(lines("(released)", logging.DEBUG))
            assert lines("(released)", logging.INFO) == []
            release.set()

    with caplog.at_level(logging.DEBUG, logger="headrace.worker"):
        virtually(main)
