"""Cases of area L, failed jobs, on every store: replays make no copies, hooks see every way in."""

import asyncio

from headrace import Fail, FailedFilter, Failure, Headrace, Retry, State
from headrace.core import trail
from headrace.core.backoff import Fixed
from headrace.core.trail import Trail
from tests.cases.running import ended, failed, put, remember, state, working
from tests.waiting import await_until


async def test_two_operators_replay_each_job_once(app: Headrace) -> None:
    """B135: 10 failed jobs, two replays of all at once; they fail again: 10 failed jobs, 10 more runs."""
    runs: list[int] = []

    @app.task(name="mail", retry=1)
    async def mail(number: int) -> None:
        runs.append(number)
        raise ValueError("no answer")

    async def all_failed(count: int) -> bool:
        return len(runs) == count and sum(queue.failed for queue in await app.ajobs.queues()) == 10

    await mail.aenqueue_many([{"number": number} for number in range(10)])
    async with working(app):
        await await_until(lambda: all_failed(10), 20)
        replays = [await app.ajobs.replays.start(FailedFilter()) for _ in range(2)]
        done = await asyncio.gather(*(app.ajobs.replays.drive(run.id) for run in replays))
        await await_until(lambda: all_failed(20), 20)
    assert sum(run.replayed for run in done) == 10
    assert sorted(runs) == sorted([*range(10), *range(10)])


async def test_a_replay_renews_the_deadline(app: Headrace) -> None:
    """B137: a job whose deadline has passed runs when it is replayed."""
    runs: list[int] = []

    @app.task(name="late", retry=Retry(max_attempts=2, backoff=Fixed(60)))
    async def late() -> None:
        runs.append(len(runs))
        if len(runs) == 1:
            raise ValueError("at first")

    job = await late.using(deadline="2s").aenqueue()
    async with working(app):
        assert (await failed(app, job.id)).reason == "deadline"
        run = await app.ajobs.replays.start(ids=[job.id])
        assert (await app.ajobs.replays.drive(run.id)).replayed == 1
        assert await ended(app, job.id) is None
    assert runs == [0, 1]


async def test_the_hook_sees_every_way_into_failed(app: Headrace) -> None:
    """B138: attempts used up, poison, an unreadable message, an unknown task, a deadline, the handler's word."""
    told: dict[str, Failure] = {}

    @app.on_failed(name="note")
    async def note(failure: Failure) -> None:
        told[failure.id] = failure

    @app.task(name="broken", retry=1)
    async def broken(number: int) -> None:
        raise LookupError(number)

    @app.task(name="decided", retry=1)
    async def decided() -> None:
        raise Fail("not today")

    await decided.using(id="poison").aenqueue()
    await remember(app, trail.encode(Trail(crashes=5, alone=True)))
    await put(app, "stranger", b'{"v":1,"id":"stranger","task":"nobody","args":{}}', priority=9)
    await remember(app, trail.encode(Trail(unknown_since_us=1)), 2)
    await broken.using(id="used-up").aenqueue(17)
    await decided.using(id="own-word").aenqueue()
    await put(app, "late", b'{"v":1,"id":"late","task":"broken","args":{"number":1},"deadline_in_us":0}')
    await put(app, "unreadable", b"\xff")
    async with working(app):
        await await_until(lambda: len(told) == 6, 30, "the hook to be told of six jobs")
    assert {id: failure.cause for id, failure in told.items()} == {
        "poison": "crashed",
        "used-up": "error",
        "own-word": "verdict",
        "late": "deadline",
        "unreadable": "unreadable",
        "stranger": "unknown task",
    }
    assert (told["used-up"].args, told["used-up"].message) == ({"number": 17}, "17")


async def test_only_what_has_failed_is_replayed(app: Headrace) -> None:
    """B090: a job that has ended well is not put back, kept or not, whoever asks; nothing else is harmed."""

    @app.task(name="kept", keep=3600)
    async def kept() -> None: ...

    job = await kept.aenqueue()
    async with working(app):
        await await_until(lambda: _succeeded(app, job.id), 20)
        assert (await app.ajobs.retry(job.id)).skipped == {job.id: "is succeeded"}
        run = await app.ajobs.replays.start(ids=[job.id, "gone"])
        done = await app.ajobs.replays.drive(run.id)
        assert (done.phase, done.replayed, done.skips) == ("done", 0, {job.id: "is succeeded", "gone": "absent"})
        again = await kept.aenqueue()
        await await_until(lambda: _succeeded(app, again.id), 20)


async def _succeeded(app: Headrace, id: str) -> bool:
    return await state(app, id) is State.SUCCEEDED
