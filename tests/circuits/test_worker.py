"""A worker and a circuit: it trips, jobs wait unharmed, others flow, probes decide, and the rest comes at a pace."""

import asyncio
import threading
from itertools import pairwise
from typing import Any

from headrace import Cancel, Headrace, JobContext, Middleware, Pending, Snooze, State
from headrace.core.backoff import Fixed
from headrace.core.operations import Claim
from headrace.core.registers import Amend
from headrace.core.retry import Retry
from headrace.middleware import Run
from headrace.signals import CircuitChanged, Signal
from tests.circuits.conftest import EVERY
from tests.circuits.dependency import Dependency
from tests.public.drivers import WatchedDriver
from tests.waiting import await_until
from tests.worker.working import state_of, work_for, working

AGAIN = Retry(max_attempts=3, backoff=Fixed(30))


async def parked(app: Headrace) -> int:
    return sum(queue.parked for queue in await app.ajobs.queues())


@EVERY
async def test_a_circuit_trips_and_its_jobs_wait_without_an_attempt_while_others_run(
    app: Headrace, dependency: Dependency
) -> None:
    smtp = app.circuit("smtp", window=10, minimum=4, open_for=60)
    done: list[int] = []

    @app.task(circuit=smtp, retry=AGAIN)
    async def mail(number: int) -> None:
        await dependency.call()

    @app.task
    async def other(number: int) -> None:
        done.append(number)

    dependency.works = False
    async with working(app, concurrency=2):
        first = [await mail.aenqueue(number) for number in range(4)]
        await await_until(lambda: len(dependency.calls) == 4)

        async def is_open() -> bool:
            return (await smtp.alook()).state == "open"

        await await_until(is_open)
        later = [await mail.aenqueue(number) for number in range(50)]
        others = [await other.aenqueue(number) for number in range(50)]

        async def is_quiet() -> bool:
            return len(done) == 50 and await parked(app) == 50

        await await_until(is_quiet, 20, "the others to run and the mails to wait")
    assert len(dependency.calls) == 4
    assert {await state_of(app, job.id) for job in others} == {"gone"}
    info = await app.ajobs.get(later[0].id)
    assert info is not None
    assert (info.state, info.reason) == (State.PARKED, "circuit smtp")
    assert not any(info.counts.values())
    assert {await state_of(app, job.id) for job in first} == {"scheduled"}
    look = await smtp.alook()
    assert (look.state, look.parked) == ("open", 50)
    assert look.history[-1].why == "100% of 4 calls failed"


async def test_probes_decide_and_what_waited_comes_back_at_a_pace(app: Headrace, dependency: Dependency) -> None:
    smtp = app.circuit("smtp", window=10, minimum=4, open_for=1, probes=2, refill=50)

    @app.task(circuit=smtp, retry=AGAIN)
    async def mail(number: int) -> None:
        await dependency.call()

    dependency.works = False
    async with working(app, concurrency=20):
        for number in range(4):
            await mail.aenqueue(number)
        await await_until(lambda: len(dependency.calls) == 4)
        for number in range(60):
            await mail.aenqueue(number)

        async def are_parked() -> bool:
            return await parked(app) == 60

        await await_until(are_parked)
        dependency.works = True
        dependency.free.clear()
        await await_until(lambda: len(dependency.calls) == 6, 20, "two probes")
        await asyncio.sleep(0)
        assert (await smtp.alook()).probing == 2
        dependency.free.set()
        await await_until(lambda: len(dependency.calls) == 64, 20, "the rest")
        assert dependency.most_at_once <= 20
    assert not await parked(app)
    moments = [at for at, _ in dependency.calls[6:]]
    # 58 calls at 50 a second, of which a burst may come at once
    assert moments[-1] - moments[0] > 0.7
    assert max(later - earlier for earlier, later in pairwise(moments)) < 1
    assert [step.after for step in (await smtp.alook()).history] == ["open", "half_open", "closed"]


class Opened(Middleware):
    """Notes how many calls there had been when a worker heard that the circuit is open."""

    def __init__(self, dependency: Dependency) -> None:
        self.dependency = dependency
        self.calls: int | None = None

    def noticed(self, signal: Signal) -> None:
        if isinstance(signal, CircuitChanged) and signal.after == "open" and self.calls is None:
            self.calls = len(self.dependency.calls)


async def test_jobs_that_were_claimed_ahead_do_not_start_once_it_is_open(app: Headrace, dependency: Dependency) -> None:
    smtp = app.circuit("smtp", window=10, minimum=10, open_for=60)
    opened = Opened(dependency)
    app.middleware.append(opened)

    @app.task(circuit=smtp, retry=AGAIN)
    async def mail(number: int) -> None:
        await dependency.call()

    @app.task(circuit=smtp, retry=AGAIN)
    def letter(number: int) -> None:
        asyncio.run(dependency.call())

    dependency.works = False
    for number in range(300):
        await (letter if number % 2 else mail).aenqueue(number)
    async with working(app, concurrency=4, threads=2, id="w1"), working(app, concurrency=4, threads=2, id="w2"):

        async def are_parked() -> bool:
            return await parked(app) + len(dependency.calls) == 300

        await await_until(are_parked, 30)
    assert opened.calls is not None
    # those that both workers had begun, and what the second one began until the answer to its own next report
    assert len(dependency.calls) - opened.calls <= 4 * 4
    assert not [job for job in (await app.ajobs.list("parked", limit=300)).jobs if any(job.counts.values())]


async def test_a_circuit_that_opens_is_heard_of_while_jobs_wait_for_a_thread(app: Headrace) -> None:
    smtp = app.circuit("smtp")
    begun: list[int] = []
    released = threading.Event()

    @app.task(circuit=smtp)
    def mail(number: int) -> None:
        begun.append(number)
        released.wait(20)

    for number in range(4):
        await mail.aenqueue(number)
    # all slots are taken, so that no claim brings news, and nothing has ended or is parked
    async with working(app, concurrency=4, threads=1) as worker:
        await await_until(lambda: worker.executor.running == 4 and begun == [0])
        await smtp.aforce_open("the others have seen it fail")

        def is_known() -> bool:
            known = worker.gates.standings.get("smtp")
            return known is not None and known.standing.state == "forced_open"

        await await_until(is_known)
        released.set()

        async def are_parked() -> bool:
            return await parked(app) == 3

        await await_until(are_parked)
    assert begun == [0]


async def test_a_circuit_that_opens_is_heard_of_between_dispatch_and_handler(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=2, minimum=1, open_for=60)
    calls: list[int] = []
    heard = asyncio.Event()

    class Slow(Middleware):
        async def around(self, job: JobContext, run: Run) -> Any:
            if job.arguments["number"]:
                await heard.wait()
            return await run()

        def noticed(self, signal: Signal) -> None:
            heard.set()

    app.middleware.append(Slow())

    @app.task(circuit=smtp, retry=AGAIN)
    async def mail(number: int) -> None:
        calls.append(number)
        raise ConnectionError

    async with working(app, concurrency=2):
        await mail.aenqueue_many([{"number": 1}, {"number": 0}])

        async def is_parked() -> bool:
            return await parked(app) == 1

        await await_until(is_parked)
    assert calls == [0]


async def test_a_worker_that_is_told_to_stop_while_it_asks_starts_nothing() -> None:
    """B003."""
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp")
    begun: list[int] = []

    @app.task(circuit="smtp")
    async def mail(number: int) -> None:
        begun.append(number)

    job = await mail.aenqueue(1)
    worker = app.worker()

    def stop(operation: object, when: str) -> None:
        if isinstance(operation, Amend):
            worker.stop()

    driver.trouble = stop
    await worker.run()
    assert not begun
    assert await state_of(app, job.id) == "ready"


async def test_nobody_asks_about_a_circuit_whose_jobs_have_begun() -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp")

    @app.task(circuit="smtp")
    async def mail(number: int) -> None:
        await work_for(60)

    await mail.aenqueue(1)
    async with working(app):

        async def is_quiet() -> bool:
            driver.seen.clear()
            await work_for(0.5)
            return not any(isinstance(operation, Amend) for operation in driver.seen)

        await await_until(is_quiet)
    assert driver.seen


async def test_what_counts(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=50, minimum=50, record=(OSError, TimeoutError), ignore=FileNotFoundError)
    raising = {
        "ignored": FileNotFoundError(),
        "recorded": ConnectionError(),
        "other": KeyError(),
        "cancelled": Cancel("not wanted"),
    }

    @app.task(circuit=smtp, retry=1, timeout=0.05)
    async def call(how: str) -> object:
        if how == "slow":
            await work_for(60)
        if how in raising:
            raise raising[how]
        return Snooze(60) if how == "snoozed" else None

    @app.task(circuit=smtp, retry=1, timeout=0.05)
    def hang(how: str) -> None:
        released.wait(20)

    released = threading.Event()
    async with working(app):
        for how in (*raising, "slow", "snoozed", "good"):
            await call.aenqueue(how)
        await hang.aenqueue("slow")

        async def are_counted() -> bool:
            return (await smtp.alook()).calls == 5

        await await_until(are_counted, 20, "the calls to be counted, that of the stuck thread too")
        released.set()
    look = await smtp.alook()
    assert (look.calls, look.failed) == (5, 3 / 5)


async def test_an_answer_that_is_not_final_is_an_answer(app: Headrace) -> None:
    bank = app.circuit("bank", window=10)
    answers = [Pending(), OSError("503"), "paid"]

    @app.poll(every="0.01s", max_polls=5, circuit=bank, retry=Retry(max_attempts=3, backoff=Fixed(0.01)))
    async def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    await ask.aenqueue()
    async with working(app):

        async def are_counted() -> bool:
            return (await bank.alook()).calls == 3

        await await_until(are_counted)
    assert (await bank.alook()).failed == 1 / 3


async def test_a_closed_circuit_is_hardly_asked_about() -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp")
    done: list[int] = []

    @app.task(circuit="smtp")
    async def mail(number: int) -> None:
        done.append(number)

    await mail.aenqueue_many([{"number": number} for number in range(2_000)])
    async with working(app):
        await await_until(lambda: len(done) == 2_000, 30)
    claims = sum(isinstance(operation, Claim) for operation in driver.seen)
    questions = [change for operation in driver.seen if isinstance(operation, Amend) for change in operation.changes]
    assert claims > 5
    assert 0 < len(questions) < claims


async def test_an_outage_fails_no_job_however_few_there_are(app: Headrace, dependency: Dependency) -> None:
    """Three jobs, more probes than that, and an outage of many rounds: nobody pays with attempts for having tried."""
    smtp = app.circuit("smtp", window=3, minimum=3, open_for=0.1, probes=5)
    done: list[int] = []

    @app.task(circuit=smtp, retry=Retry(max_attempts=2, backoff=Fixed(0.01)))
    async def mail(number: int) -> None:
        await dependency.call()
        done.append(number)

    dependency.works = False
    async with working(app):
        ids = [(await mail.aenqueue(number)).id for number in range(3)]
        await await_until(lambda: len(dependency.calls) >= 12, 20, "a few rounds of probes")
        infos = [await app.ajobs.get(id) for id in ids]
        assert all(info is not None and info.counts["attempts"] == 1 for info in infos)
        dependency.works = True
        await await_until(lambda: sorted(done) == [0, 1, 2], 20, "all of them")
