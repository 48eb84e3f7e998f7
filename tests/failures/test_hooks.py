"""Hooks for failed jobs: called for every way into failed, once for each failure, and never for themselves."""

import msgspec
import pytest

from headrace import ConfigError, Fail, Failure, Headrace, PayloadTooLarge, Retry, RetryIn, TaskError
from headrace.core import codec, trail
from headrace.core.backoff import Fixed
from headrace.core.trail import Trail
from tests.cases.running import put, remember
from tests.worker.working import ended, state_of, virtually, work_for, working_virtually

QUICK = Retry(max_attempts=2, backoff=Fixed(1))


async def quiet(app: Headrace) -> None:
    """Until nothing waits or runs."""
    while any(queue.ready or queue.running or queue.scheduled for queue in await app.ajobs.queues()):
        await work_for(1)


def all_ways(app: Headrace) -> dict[str, Failure]:
    """Tasks that fail in different ways; what the hook of the app is told of their jobs, by id."""
    told: dict[str, Failure] = {}

    @app.on_failed
    async def note(failure: Failure) -> None:
        told[failure.id] = failure

    @app.task(name="broken", retry=QUICK)
    async def broken(number: int) -> None:
        raise LookupError(f"no {number}")

    @app.task(name="decided")
    async def decided() -> None:
        raise Fail("never")

    @app.task(name="later", retry=1)
    async def later() -> RetryIn:
        return RetryIn(1)

    @app.task(name="slow", retry=1, timeout=1)
    async def slow() -> None:
        await work_for(60)

    return told


CAUSES = {
    "poison": "crashed",
    "error": "error",
    "verdict": "verdict",
    "later": "verdict",
    "slow": "timeout",
    "arguments": "bad arguments",
    "unknown": "unknown task",
    "unreadable": "unreadable",
    "newer": "newer message",
}


def test_every_way_into_failed_is_told_with_its_cause() -> None:
    """B138: exhausted, decided, timeout, poison, arguments, unknown task, unreadable, newer message."""

    async def main(app: Headrace) -> None:
        told = all_ways(app)
        await app.tasks["decided"].using(id="poison").aenqueue()
        await remember(app, trail.encode(Trail(crashes=5, alone=True)))
        await app.tasks["broken"].using(id="error", tenant="t1", tags=["x"]).aenqueue(17)
        await app.tasks["decided"].using(id="verdict").aenqueue()
        for name in ("later", "slow"):
            await app.tasks[name].using(id=name).aenqueue()
        await put(app, "arguments", b'{"v":1,"id":"arguments","task":"broken","args":{"number":"x"}}')
        await put(app, "unknown", b'{"v":1,"id":"unknown","task":"nobody","args":{}}')
        await put(app, "unreadable", b"\xff")
        await put(app, "newer", b'{"v":9}')
        async with working_virtually(app):
            await quiet(app)
        assert {id: failure.cause for id, failure in told.items()} == CAUSES
        assert (told["arguments"].args, told["unknown"].task) == ({"number": "x"}, "nobody")
        assert (told["unreadable"].task, told["unreadable"].args) == ("", None)
        assert told["poison"].crashes == 5
        error = told["error"]
        assert (error.task, error.queue, error.reason, error.error) == ("broken", "default", *["LookupError"] * 2)
        assert (error.message, error.attempts, error.args) == ("no 17", 2, {"number": 17})
        assert (error.tenant, error.tags) == ("t1", ("x",))

    virtually(main)


def test_a_retry_that_would_come_after_the_deadline_is_told_as_such() -> None:
    """B138."""

    async def main(app: Headrace) -> None:
        told = all_ways(app)
        await app.tasks["broken"].using(id="late", deadline="500ms").aenqueue(1)
        async with working_virtually(app):
            await quiet(app)
        assert (told["late"].cause, told["late"].error) == ("deadline", "DeadlinePassed")

    virtually(main)


def test_a_hook_of_a_task_takes_its_arguments_and_runs_once_for_each_failure() -> None:
    async def main(app: Headrace) -> None:
        said: list[tuple[object, ...]] = []

        @app.task(name="charge", queue="money", retry=1)
        async def charge(order_id: int, note: str = "none") -> None:
            raise ValueError("no")

        @charge.on_failed(name="refund", retry=3)
        async def refund(order_id: int, note: str, failure: Failure) -> None:
            said.append((order_id, note, failure.error))

        job = await charge.using(tenant="t", headers={"a": "b"}).aenqueue(17)
        async with working_virtually(app):
            await quiet(app)
            assert said == [(17, "none", "ValueError")]
            await app.ajobs.retry(job.id)
            await quiet(app)
        assert said == [(17, "none", "ValueError")] * 2
        assert await state_of(app, job.id) == "failed"

    virtually(main)


def test_the_hook_is_a_job_of_the_same_queue_with_headers_and_tenant() -> None:
    async def main(app: Headrace) -> None:
        @app.task(name="charge", queue="money", retry=1)
        async def charge(order_id: int) -> None:
            raise ValueError("no")

        @charge.on_failed(name="refund", retry=1)
        async def refund(order_id: int) -> None:
            raise KeyError(order_id)

        job = await charge.using(tenant="t", headers={"a": "b"}, tags=["x"]).aenqueue(17)
        before = await app.ajobs.get(job.id)
        assert before is not None
        async with working_virtually(app):
            hook = await ended(app, f"{job.id}/failed-{int(before.enqueued.timestamp() * 1_000_000)}", "failed")
        assert (hook.task, hook.queue, hook.args) == ("refund", "money", {"order_id": 17})
        assert hook.envelope is not None
        assert (hook.envelope.tenant, hook.envelope.headers, hook.envelope.tags) == ("t", {"a": "b"}, ("x",))

    virtually(main)


def test_a_hook_that_fails_is_told_once_and_never_to_itself() -> None:
    async def main(app: Headrace) -> None:
        told: list[str] = []

        @app.task(name="charge", retry=1)
        async def charge() -> None:
            raise ValueError("no")

        @charge.on_failed(name="refund", retry=1)
        async def refund() -> None:
            raise ValueError("no")

        @app.on_failed(name="all", retry=1)
        async def everywhere(failure: Failure) -> None:
            told.append(failure.task)
            raise ValueError("no")

        await charge.aenqueue()
        async with working_virtually(app):
            await quiet(app)
        assert sorted(told) == ["charge", "refund"]
        assert sorted(info.task for info in (await app.ajobs.list("failed")).jobs) == ["all", "all", "charge", "refund"]

    virtually(main)


def test_arguments_without_room_are_left_out_of_the_record() -> None:
    async def main(app: Headrace) -> None:
        told: list[Failure] = []

        @app.task(name="large", retry=1)
        async def large(text: str) -> None:
            raise ValueError("no")

        @app.on_failed
        async def note(failure: Failure) -> None:
            told.append(failure)

        await large.aenqueue("x" * (codec.MAX_BODY - 200))
        with pytest.raises(PayloadTooLarge):
            await large.aenqueue("x" * codec.MAX_BODY)
        async with working_virtually(app):
            await quiet(app)
        (failure,) = told
        assert (failure.error, failure.args) == ("ValueError", None)

    virtually(main)


def test_what_cannot_be_meant_is_refused() -> None:
    app = Headrace("memory://")

    @app.task(name="charge")
    def charge(order_id: int) -> None: ...

    def other(order_id: int) -> None: ...

    def strange(colour: str) -> None: ...

    @charge.on_failed(name="refund")
    def refund(order_id: int, failure: Failure) -> None: ...

    with pytest.raises(ConfigError, match="charge has an on_failed already, refund"):
        charge.on_failed(other)
    with pytest.raises(ConfigError, match="refund runs when a job has failed"):
        refund.on_failed(other)
    with pytest.raises(ConfigError, match="takes no queue=: a hook runs in the queue of its job"):
        charge.on_failed(queue="x")(other)
    with pytest.raises(TaskError, match="takes 'colour', which the task does not have: it may take order_id"):
        charge.on_failed(strange)
    with pytest.raises(TaskError, match="it may take one argument that is annotated with Failure"):
        app.on_failed(strange)
    second = app.task(name="second")(other)
    with pytest.raises(ConfigError, match="charge is a task already"):
        second.on_failed(name="charge")(charge.function)
    assert app.tasks["charge"] is charge


def test_a_hook_of_the_app_adds_no_queue_to_its_workers() -> None:
    app = Headrace("memory://")

    @app.task(name="charge", queue="money")
    def charge() -> None: ...

    @app.on_failed
    def note(failure: Failure) -> None: ...

    assert app.worker().options.queues == ("money",)


def test_a_failure_is_a_plain_record() -> None:
    failure = Failure(id="1", task="t", queue="q", cause="error", reason="X", args={"a": 1})
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


def test_slips_in_a_hook_are_named_at_its_decoration() -> None:
    app = Headrace("memory://")

    @app.task
    async def pay(cents: int, rate: float = 1.0, note: str | None = None) -> None: ...

    with pytest.raises(ConfigError, match=r"@app.on_failed takes no nam= \(did you mean name=\?\)"):

        @app.on_failed(nam="x")
        async def told(failure: Failure) -> None: ...

    with pytest.raises(TaskError, match="takes 'cents' as str, of the task it is int: it would never run"):

        @pay.on_failed
        async def wrong(cents: str) -> None: ...

    @pay.on_failed
    async def wider(cents: float, rate: float, note: str) -> None: ...

    assert wider.name in app.tasks
