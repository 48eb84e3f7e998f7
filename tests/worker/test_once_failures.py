"""Jobs with a once key that fail: whether their key is free then, and that nobody else suffers (B019)."""

import pytest

from headrace import Fixed, Headrace, Once, Retry
from headrace.core.operations import Enqueue, NewJob
from headrace.jobinfo import JobInfo
from tests.worker.working import ended, virtually, work_for, working_virtually


@pytest.mark.parametrize("runs_first", [True, False])
def test_a_failure_before_another_run_counts_if_there_was_one(*, runs_first: bool) -> None:
    """Its retry came too late. A job that never ran leaves the key free."""

    async def main(app: Headrace) -> tuple[list[int], JobInfo, JobInfo]:
        runs = list[int]()

        def key_of(n: int) -> str:
            return "k"

        @app.task(name="charge", once=Once(key_of, failures="keep"), retry=Retry(3, backoff=Fixed(10)), keep="1h")
        async def charge(n: int) -> None:
            runs.append(n)
            if len(runs) == 1 and runs_first:
                raise ValueError("declined, perhaps")

        args = b'{"n":1}' if runs_first else b'{"n":"one"}'
        body = b'{"v":1,"id":"first","task":"charge","args":%b,"deadline_in_us":15000000}' % args
        await app.driver.arun(Enqueue((NewJob("first", "default", "charge", body),)))
        async with working_virtually(app):
            await work_for(5)
        await work_for(20)
        async with working_virtually(app):
            first = await ended(app, "first", "failed")
            second = await charge.aenqueue(n=1)
            return runs, first, await ended(app, second.id, "failed" if runs_first else "succeeded")

    runs, first, second = virtually(main)
    assert runs == [1]
    assert first.reason == ("deadline" if runs_first else "bad arguments")
    assert second.reason == ("DeadlinePassed" if runs_first else "")


LONG = b"x" * 501


@pytest.mark.parametrize("key", [b"", LONG, b"a\\u0000b"])
@pytest.mark.parametrize("args", [b'{"n":1}', b'{"n":1e999}', b'{"n":1,"\xff":2}'])
def test_a_message_with_a_key_that_no_store_can_keep_fails_by_itself(key: bytes, args: bytes) -> None:
    async def main(app: Headrace) -> tuple[list[int], JobInfo, JobInfo]:
        runs = list[int]()

        @app.task(name="charge", keep="1h")
        async def charge(n: int) -> None:
            runs.append(n)

        body = b'{"v":1,"id":"foreign","task":"charge","args":%b,"once_key":"%b"}' % (args, key)
        await app.driver.arun(Enqueue((NewJob("foreign", "default", "charge", body),)))
        async with working_virtually(app):
            job = await charge.aenqueue(n=7)
            return runs, await ended(app, "foreign", "failed"), await ended(app, job.id, "succeeded")

    runs, foreign, _ = virtually(main)
    assert (runs, foreign.reason) == ([7], "bad arguments")


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError("no database"), RecursionError()])
def test_whatever_the_maker_of_a_key_raises_fails_one_job(error: BaseException) -> None:
    async def main(app: Headrace) -> tuple[list[int], JobInfo]:
        runs = list[int]()

        def key_of(n: int) -> str:
            if n == 1:
                raise error
            return str(n)

        @app.task(name="charge", once=key_of)
        async def charge(n: int) -> None:
            runs.append(n)

        body = b'{"v":1,"id":"foreign","task":"charge","args":{"n":1}}'
        await app.driver.arun(Enqueue((NewJob("foreign", "default", "charge", body),)))
        async with working_virtually(app):
            await charge.aenqueue(n=7)
            return runs, await ended(app, "foreign", "failed")

    runs, foreign = virtually(main)
    assert (runs, foreign.reason) == ([7], "bad arguments")
