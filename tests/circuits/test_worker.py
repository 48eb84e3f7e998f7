"""A worker and a circuit: it trips, jobs wait unharmed, others flow, probes decide, and the rest comes at a pace."""

import asyncio
from itertools import pairwise

from headrace import Headrace, State
from headrace.core.backoff import Fixed
from headrace.core.retry import Retry
from tests.circuits.dependency import Dependency
from tests.waiting import await_until
from tests.worker.working import state_of, working

AGAIN = Retry(max_attempts=3, backoff=Fixed(30))


async def parked(app: Headrace) -> int:
    return sum(queue.parked for queue in await app.ajobs.queues())


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
