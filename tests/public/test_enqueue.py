"""Enqueueing: one and many, in both colours, and with a store that does not answer."""

import asyncio
import gc
import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import ConfigError, Headrace, InvalidArguments, StoreUnavailable, WrongColour
from headrace.core import codec
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from headrace.testing.processes import SimulatedClock
from tests.public.drivers import JumpingClock, WatchedDriver, define, losing

# -- colours


def test_enqueue_inside_a_running_loop_names_its_twin(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)

    async def handler() -> None:
        task.enqueue(1)

    async def bulk() -> None:
        task.enqueue_many([{"order_id": 1}])

    with pytest.raises(WrongColour, match="await aenqueue"):
        asyncio.run(handler())
    with pytest.raises(WrongColour, match="await aenqueue_many"):
        asyncio.run(bulk())
    assert not driver.seen


def test_enqueue_in_a_thread_beside_a_loop_is_fine(app: Headrace) -> None:
    async def handler() -> str:
        return (await asyncio.to_thread(define(app).enqueue, 1)).status

    assert asyncio.run(handler()) == "new"


def test_fifty_coroutines_share_two_round_trips(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)

    async def enqueue_all() -> list[str]:
        return [job.id for job in await asyncio.gather(*(task.aenqueue(number) for number in range(50)))]

    ids = asyncio.run(enqueue_all())
    assert [len(operation.jobs) for operation in driver.enqueues()] == [1, 49]
    assert len(set(ids)) == 50
    assert [job.id for operation in driver.enqueues() for job in operation.jobs] == ids


def test_each_coroutine_gets_the_answer_about_its_own_job(app: Headrace) -> None:
    task = define(app, unique="{order_id}")

    async def enqueue_all() -> list[str]:
        return [job.status for job in await asyncio.gather(*(task.aenqueue(number % 3) for number in range(9)))]

    assert asyncio.run(enqueue_all()) == ["new"] * 3 + ["duplicate"] * 6


def test_a_cancelled_caller_leaves_the_others_their_answers(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)

    async def scenario() -> tuple[list[Any], list[Any]]:
        driver.gate = asyncio.Event()
        calls = [asyncio.ensure_future(task.aenqueue(number)) for number in range(5)]
        await asyncio.sleep(0)
        calls[0].cancel()  # the one whose operation is in flight
        calls[3].cancel()  # one that waits for the next
        await asyncio.sleep(0)
        driver.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        later = await asyncio.gather(*(task.aenqueue(9) for _ in range(2)))
        return answers, list(later)

    answers, later = asyncio.run(scenario())
    assert [type(answer).__name__ for answer in answers] == ["CancelledError", "Job", "Job", "CancelledError", "Job"]
    assert {job.id for job in (*answers, *later) if not isinstance(job, BaseException)} <= driver.stored()
    assert all(job.status == "new" for job in later)


def test_nobody_waits_for_an_operation_that_was_cancelled(app: Headrace, driver: WatchedDriver) -> None:
    """As when the loop is shut down: each task that ends must let those go that wait for it."""
    task = define(app)

    async def scenario() -> list[Any]:
        driver.gate = asyncio.Event()
        calls = [asyncio.ensure_future(task.aenqueue(number)) for number in range(4)]
        await asyncio.sleep(0)
        calls[0].cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        (drain,) = [each for each in asyncio.all_tasks() if each.get_name() == "headrace-enqueue"]
        drain.cancel()
        async with asyncio.timeout(10):
            answers = await asyncio.gather(*calls, return_exceptions=True)
        driver.gate.set()
        return [*answers, await task.aenqueue(9)]

    answers = asyncio.run(scenario())
    assert [type(answer).__name__ for answer in answers] == ["CancelledError"] * 4 + ["Job"]


def test_one_jobs_trouble_is_not_its_neighbours(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)

    def trouble(operation: Any, when: str) -> None:
        if any(b'"order_id":3' in job.body for job in getattr(operation, "jobs", ())):
            raise ZeroDivisionError

    driver.trouble = trouble

    async def enqueue_all() -> list[Any]:
        return await asyncio.gather(*(task.aenqueue(number) for number in range(6)), return_exceptions=True)

    answers = asyncio.run(enqueue_all())
    assert [type(answer).__name__ for answer in answers] == ["Job", "Job", "Job", "ZeroDivisionError", "Job", "Job"]
    assert len(driver.stored()) == 5


def test_loops_in_several_threads_do_not_mix(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)
    ids: list[str] = []

    async def enqueue_all() -> None:
        ids.extend(job.id for job in await asyncio.gather(*(task.aenqueue(number) for number in range(20))))

    threads = [threading.Thread(target=lambda: asyncio.run(enqueue_all())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 60
    assert set(ids) == driver.stored()


# -- many


def test_many_jobs_go_in_chunks_and_in_order(app: Headrace, driver: WatchedDriver) -> None:
    jobs = define(app).enqueue_many({"order_id": number} for number in range(2_500))
    assert [len(operation.jobs) for operation in driver.enqueues()] == [1_000, 1_000, 500]
    assert [job.id for job in jobs] == [job.id for operation in driver.enqueues() for job in operation.jobs]
    assert bytes(codec.decode(driver.enqueues()[2].jobs[-1].body).args) == b'{"order_id":2499}'


def test_tuples_are_positional(app: Headrace, driver: WatchedDriver) -> None:
    define(app).enqueue_many([(1,), (2, "x")])
    assert [bytes(codec.decode(job.body).args) for job in driver.enqueues()[0].jobs] == [
        b'{"order_id":1}',
        b'{"order_id":2,"note":"x"}',
    ]


def test_no_calls_are_no_jobs(app: Headrace, driver: WatchedDriver) -> None:
    assert define(app).enqueue_many([]) == []
    assert not driver.seen


@pytest.mark.parametrize("calls", [[17], [[17]], ["17"]])
def test_a_call_must_be_a_dict_or_a_tuple(app: Headrace, calls: list[Any]) -> None:
    with pytest.raises(InvalidArguments, match=r"^call 0 of enqueue_many: it is .*: pass a dict"):
        define(app).enqueue_many(calls)


def test_an_error_in_a_later_chunk_says_what_is_stored(app: Headrace, driver: WatchedDriver) -> None:
    task = define(app)
    calls = [{"order_id": 1}] * 1_500 + [{"order_id": "x"}]
    with pytest.raises(InvalidArguments) as caught:
        task.enqueue_many(calls)
    assert caught.value.__notes__ == ["The first 1,000 jobs of this call are stored, the rest is not."]
    assert len(driver.stored()) == 1_000
    with pytest.raises(InvalidArguments) as caught:
        asyncio.run(task.aenqueue_many(calls))
    assert caught.value.__notes__ == ["The first 1,000 jobs of this call are stored, the rest is not."]


def test_an_outage_in_a_later_chunk_says_what_is_known(app: Headrace, driver: WatchedDriver) -> None:
    app = Headrace("memory://", resend=0)
    app.driver = driver

    def trouble(operation: Any, when: str) -> None:
        if when == "after" and len(driver.enqueues()) == 2:
            raise StoreUnavailable("the connection was cut")

    driver.trouble = trouble
    with pytest.raises(StoreUnavailable) as caught:
        define(app).enqueue_many([{"order_id": 1}] * 1_500)
    assert caught.value.__notes__ == ["The first 1,000 jobs of this call are stored, the rest is not known to be."]
    assert len(driver.stored()) == 1_500


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_error_of_many_names_the_call(app: Headrace, driver: WatchedDriver, colour: str) -> None:
    task = define(app, unique="{note}")
    for bad, words in [({"order_id": "x"}, "argument 'order_id' must be"), ({"order_id": 1}, "the unique key must be")]:
        calls = [{"order_id": 1, "note": "a"}] * 17 + [bad]
        with pytest.raises(InvalidArguments, match=f"^call 17 of enqueue_many: .*{words}"):
            task.enqueue_many(calls) if colour == "sync" else asyncio.run(task.aenqueue_many(calls))
    assert not driver.seen


def test_spreading_puts_even_gaps_between_due_times(app: Headrace, driver: WatchedDriver) -> None:
    define(app).using(run_after=10).enqueue_many([(number,) for number in range(4)], spread_over=timedelta(minutes=1))
    assert [job.delay_us for job in driver.enqueues()[0].jobs] == [10_000_000, 25_000_000, 40_000_000, 55_000_000]
    moment = datetime(2126, 1, 1, tzinfo=UTC)
    define(app).using(run_after=moment).enqueue_many([(1,), (2,)], spread_over=60)
    due = [job.due_us for job in driver.enqueues()[1].jobs]
    assert due[1] - due[0] == 30_000_000  # type: ignore[operator]


def test_one_id_cannot_stand_for_many(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="one id cannot stand for many jobs"):
        define(app).using(id="x").enqueue_many([(1,)])


def test_many_awaited_is_the_same(app: Headrace, driver: WatchedDriver) -> None:
    jobs = asyncio.run(define(app).aenqueue_many([(number,) for number in range(1_200)]))
    assert {job.id for job in jobs} == driver.stored()
    assert [len(operation.jobs) for operation in driver.enqueues()] == [1_000, 200]


def test_a_call_becomes_a_job_later(app: Headrace, driver: WatchedDriver) -> None:
    call = define(app, unique="{order_id}", name="mail").call(17)
    job = call.job("some-id")
    assert (job.id, job.task, job.unique, driver.seen) == ("some-id", "mail", "17", [])
    assert codec.decode(job.body).id == "some-id"
    with pytest.raises(InvalidArguments):
        define(app, name="mail").call("x")


# -- a store that does not answer


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_lost_answer_makes_one_job_that_is_new(
    app: Headrace, driver: WatchedDriver, when: str, colour: str
) -> None:  # B032
    clock = app.clock = JumpingClock()
    driver.trouble = losing(when, 2)
    task = define(app)
    job = task.enqueue(1) if colour == "sync" else asyncio.run(task.aenqueue(1))
    assert (job.status, driver.stored()) == ("new", {job.id})
    assert len({operation.jobs for operation in driver.enqueues()}) == 1
    assert len(driver.enqueues()) == 3
    assert len(clock.slept) == (2 if colour == "sync" else 0)


def test_a_duplicate_is_one_also_when_its_answer_was_lost(app: Headrace, driver: WatchedDriver) -> None:
    app.clock = JumpingClock()
    task = define(app, unique="{order_id}")
    first = task.enqueue(1)
    driver.trouble = losing("after", 1)
    assert task.enqueue(1) == type(first)(first.id, "duplicate")


def test_a_store_that_stays_away_raises_within_five_seconds(app: Headrace, driver: WatchedDriver) -> None:  # B032, B112
    clock = app.clock = JumpingClock()
    driver.trouble = losing("before", 1_000)
    with pytest.raises(StoreUnavailable, match="the connection was cut"):
        define(app).enqueue(1)
    assert 4.9 < sum(clock.slept) < 5.1
    assert all(0 < pause <= 1 for pause in clock.slept)
    assert len(driver.enqueues()) < 30


def test_coroutines_raise_too_and_each_its_own_error(driver: WatchedDriver) -> None:  # B032
    app = Headrace("memory://", resend=0.05)
    app.driver = driver
    driver.trouble = losing("before", 1_000)
    task = define(app)

    async def enqueue_all() -> list[Any]:
        return await asyncio.gather(*(task.aenqueue(number) for number in range(5)), return_exceptions=True)

    errors = asyncio.run(enqueue_all())
    assert all(isinstance(error, StoreUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 5


async def virtual(seconds: float) -> None:
    """Let virtual time pass."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


def test_all_give_up_together_after_one_resend_time(app: Headrace, driver: WatchedDriver) -> None:  # B032
    """Not the first one after its five seconds, and then the others after five more."""
    clock = VirtualClock()
    app.clock = SimulatedClock(clock)
    driver.trouble = losing("before", 1_000)
    task = define(app)

    async def enqueue_all() -> list[Any]:
        return await asyncio.gather(*(task.aenqueue(number) for number in range(5)), return_exceptions=True)

    errors = run_virtual(enqueue_all(), clock)
    assert [type(error) for error in errors] == [StoreUnavailable] * 5
    assert 5.0 <= clock.monotonic() < 5.2
    assert {len(operation.jobs) for operation in driver.enqueues()[1:]} == {5}


def test_who_came_later_gives_up_later(app: Headrace, driver: WatchedDriver) -> None:  # B032
    clock = VirtualClock()
    app.clock = SimulatedClock(clock)
    driver.trouble = losing("before", 1_000)
    task = define(app)

    async def enqueue_at(moment: float) -> float:
        await virtual(moment)
        with pytest.raises(StoreUnavailable):
            await task.aenqueue(1)
        return clock.monotonic() - moment

    async def enqueue_all() -> list[float]:
        return await asyncio.gather(*map(enqueue_at, (0, 2, 4)))

    assert all(5.0 <= waited < 6.2 for waited in run_virtual(enqueue_all(), clock))


def test_a_store_that_comes_back_gets_all_that_wait(app: Headrace, driver: WatchedDriver) -> None:  # B032
    clock = VirtualClock()
    app.clock = SimulatedClock(clock)
    driver.trouble = losing("after", 6)
    task = define(app)

    async def enqueue_all() -> list[str]:
        calls = [asyncio.ensure_future(task.aenqueue(number)) for number in range(5)]
        await virtual(0.1)
        calls[0].cancel()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return [type(answer).__name__ if isinstance(answer, BaseException) else answer.status for answer in answers]

    assert run_virtual(enqueue_all(), clock) == ["CancelledError", "new", "new", "new", "new"]
    assert len(driver.stored()) == 5


def test_what_was_accepted_is_what_is_stored(app: Headrace, driver: WatchedDriver) -> None:  # B032
    app = Headrace("memory://", resend=0)
    app.driver = driver
    task = define(app)
    accepted, refused = set(), 0
    for number in range(200):
        if number % 5 == 0:
            driver.trouble = losing("before", 1)
        try:
            accepted.add(task.enqueue(number).id)
        except StoreUnavailable:
            refused += 1
    assert (len(accepted), refused) == (160, 40)
    assert accepted == driver.stored()


def test_a_producer_does_not_grow_while_the_store_is_away(driver: WatchedDriver) -> None:  # B112
    app = Headrace("memory://", resend=0)
    app.driver = driver
    task = define(app)

    def trouble(operation: Any, when: str) -> None:
        driver.seen.clear()
        raise StoreUnavailable("the connection was cut")

    driver.trouble = trouble

    def attempt(times: int) -> int:
        raised = 0
        for number in range(times):
            try:
                task.enqueue(number, note="x" * 1_000)
            except StoreUnavailable:
                raised += 1
        return raised

    attempt(100)
    tracemalloc.start()
    try:
        assert attempt(2_000) == 2_000
        gc.collect()
        # 2,000 messages of 1,000 characters would be 2 MB; other tests' leavings come to a little of that
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
