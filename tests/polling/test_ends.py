"""How polls end, and the jobs that their ends set off."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace import Cancel, Fail, Fixed, Headrace, Pending, Retry, RetryIn, Snooze, current_job
from headrace.context import JobContext
from headrace.jobinfo import JobInfo
from headrace.polling import PollTask
from tests.polling.asking import Upstream
from tests.worker.working import virtually, work_for, working_virtually


class Payment(msgspec.Struct):
    """What an upstream answers in the end."""

    id: str
    cents: int


class Ended(msgspec.Struct):
    """What was left after a poll."""

    poll: JobInfo | None
    upstream: Upstream
    hooks: list[tuple[Any, ...]]  # what hooks were called with
    contexts: list[JobContext]
    hook: JobInfo | None  # the job


def poll_to_end(
    *answers: Any, prepare: Callable[[PollTask[Any, Any], Ended], None] = lambda task, ended: None, **options: Any
) -> Ended:
    """One poll every 10 s for up to 100 s, with both hooks."""

    async def main(app: Headrace) -> Ended:
        ended = Ended(None, Upstream(*answers), [], [], None)

        @app.poll(every="10s", give_up_after=100, keep="1h", **{"retry": Retry(2, backoff=Fixed(3)), **options})
        async def ask(order_id: int, note: str = "") -> Any:
            return ended.upstream.ask()

        @ask.on_final(keep="1h", retry=1)
        async def final(order_id: int, result: Payment) -> None:
            ended.hooks.append(("final", order_id, result))
            ended.contexts.append(current_job())

        @ask.on_timeout(keep="1h")
        async def in_vain(note: str, order_id: int) -> None:
            ended.hooks.append(("timeout", order_id, note))
            ended.contexts.append(current_job())

        prepare(ask, ended)
        async with working_virtually(app):
            ended.upstream.begin()
            sent = ask.using(headers={"shop": "1"}, tags=("vip",), tenant="acme")
            job = await sent.aenqueue(order_id=17)
            await work_for(300)
            ended.poll, ended.hook = await app.ajobs.get(job.id), await app.ajobs.get(f"{job.id}/end")
        return ended

    return virtually(main)


def how(ended: Ended) -> tuple[str, str]:
    assert ended.poll is not None
    return ended.poll.state.value, ended.poll.reason


PAID = Payment("pay-1", 500)


def test_a_final_value_ends_it_and_goes_to_on_final() -> None:
    ended = poll_to_end(Pending(), Pending(), PAID)
    assert ended.upstream.times == [0, 10, 20]
    assert how(ended) == ("succeeded", "")
    assert ended.hooks == [("final", 17, PAID)]
    (context,) = ended.contexts
    assert (context.headers, context.tags, context.tenant) == ({"shop": "1"}, ("vip",), "acme")
    assert context.poll == 0  # it is no poll itself
    assert ended.poll is not None
    assert (context.id, context.attempt) == (f"{ended.poll.id}/end", 1)
    assert ended.poll.counts["polls"] == 2


def test_a_timeout_hands_over_what_was_left_to_a_default() -> None:
    ended = poll_to_end(Pending())
    assert how(ended) == ("expired", "timed out")
    assert ended.upstream.times == list(range(0, 91, 10))
    assert ended.hooks == [("timeout", 17, "")]
    assert ended.hook is not None
    assert (ended.hook.state, ended.hook.args) == ("succeeded", {"note": "", "order_id": 17})


def test_a_verdict_may_be_raised_as_well() -> None:
    def prepare(task: PollTask[Any, Any], ended: Ended) -> None:
        @task.pre_check
        async def check() -> None:
            if len(ended.upstream.times) == 1:
                raise Pending("not now", after=50)

    ended = poll_to_end(Pending(), PAID, prepare=prepare)
    assert ended.upstream.times == [0]
    assert how(ended) == ("expired", "timed out")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(Fail("no such order"), ("failed", "failed")), (Cancel("paid by webhook"), ("cancelled", "cancelled"))],
)
def test_other_ends_set_off_no_hook(answer: Any, expected: tuple[str, str]) -> None:
    ended = poll_to_end(Pending(), answer)
    assert how(ended) == expected
    assert (ended.hooks, ended.hook) == ([], None)


def test_errors_that_last_fail_it_without_a_hook() -> None:
    ended = poll_to_end(Pending(), OSError("down"))
    assert ended.upstream.times == [0, 10, 13]
    assert how(ended) == ("failed", "OSError")
    assert (ended.hooks, ended.hook) == ([], None)


def test_errors_that_pass_change_nothing_in_the_schedule() -> None:
    ended = poll_to_end(OSError("down"), Pending(), OSError("down"), Pending(), PAID)
    assert ended.upstream.times == [0, 3, 13, 16, 26]
    assert ended.hooks == [("final", 17, PAID)]


def test_errors_until_the_deadline_time_out() -> None:
    retry = Retry(max_attempts=None, backoff=Fixed(30))
    ended = poll_to_end(OSError("down"), retry=retry)
    assert ended.upstream.times == [0, 30, 60, 90]
    assert how(ended) == ("expired", "timed out")
    assert [call[0] for call in ended.hooks] == ["timeout"]


def test_snooze_and_retry_in_put_it_off() -> None:
    ended = poll_to_end(Snooze(2), RetryIn(4), Pending(), PAID)
    assert ended.upstream.times == [0, 2, 6, 16]
    assert ended.poll is not None
    assert (ended.poll.counts["polls"], ended.poll.counts["snoozes"]) == (1, 1)


# -- what cannot be handed over


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (None, "returned None: return Pending() while the answer is not final"),
        ({"id": "pay-1"}, "has no field 'cents', which is required. The query returned {'id': 'pay-1'}"),
        ({"id": "pay-1", "cents": "many"}, "cents"),
        (object(), "of type object"),
        (float("nan"), "nan"),
    ],
)
def test_a_final_value_that_does_not_fit_fails_the_poll_and_says_so(answer: Any, match: str) -> None:
    """It is not asked again by itself: the answer is final, and the code has to be put right."""
    ended = poll_to_end(Pending(), answer)
    assert ended.upstream.times == [0, 10]
    assert how(ended) == ("failed", "bad result")
    assert ended.poll is not None
    assert match in ended.poll.failure
    assert ended.hooks == []


def test_a_poll_that_is_replayed_asks_again_and_hands_over() -> None:
    async def main(app: Headrace) -> tuple[Upstream, list[int], float]:
        upstream, results = Upstream({"cents": "many"}, Pending(), {"cents": 5}), list[int]()

        @app.poll(every="10s", give_up_after=60)
        async def ask() -> Any:
            return upstream.ask()

        @ask.on_final
        async def final(result: dict[str, int]) -> None:
            results.append(result["cents"])

        async with working_virtually(app):
            upstream.begin()
            job = await ask.aenqueue()
            await work_for(1000)
            assert (await app.ajobs.retry(job.id)).retried == 1
            replayed = upstream.now()
            await work_for(50)
            assert await app.ajobs.get(job.id) is None
        return upstream, results, replayed

    upstream, results, replayed = virtually(main)
    assert upstream.times == [0, replayed, replayed + 10]
    assert results == [5]


# -- pre_check


def test_a_pre_check_that_knows_the_answer_spares_the_query() -> None:
    def prepare(task: PollTask[Any, Any], ended: Ended) -> None:
        @task.pre_check
        async def check(order_id: int) -> Payment | None:
            assert order_id == 17
            return PAID if ended.upstream.now() >= 20 else None

    ended = poll_to_end(Pending(), prepare=prepare)
    assert ended.upstream.times == [0, 10]
    assert ended.hooks == [("final", 17, PAID)]


def test_a_pre_check_may_end_it_silently_or_put_it_off() -> None:
    verdicts = [None, Snooze(3), Pending("in review"), Cancel("paid by webhook")]

    def prepare(task: PollTask[Any, Any], ended: Ended) -> None:
        @task.pre_check
        async def check() -> Any:
            return verdicts.pop(0)

    ended = poll_to_end(Pending(), prepare=prepare)
    assert ended.upstream.times == [0]
    assert how(ended) == ("cancelled", "cancelled")
    assert ended.poll is not None
    assert (ended.poll.counts["polls"], ended.poll.counts["snoozes"]) == (2, 1)
    assert ended.poll.history[-1].message == "paid by webhook"
    assert ended.hooks == []


def test_an_error_of_a_pre_check_is_one_of_the_polls() -> None:
    def prepare(task: PollTask[Any, Any], ended: Ended) -> None:
        @task.pre_check
        async def check(**arguments: Any) -> None:
            raise LookupError(f"{arguments}")

    ended = poll_to_end(Pending(), prepare=prepare)
    assert ended.upstream.times == []
    assert how(ended) == ("failed", "LookupError")
    assert ended.poll is not None
    assert ended.poll.history[-1].message == "{'order_id': 17}"


def test_called_directly_it_is_the_query_alone() -> None:
    app = Headrace("memory://")

    @app.poll(every="1s", max_polls=2)
    def ask(order_id: int) -> str:
        return f"paid {order_id}"

    @ask.pre_check
    def check() -> str:
        raise AssertionError("a call is no job")

    assert ask(17) == "paid 17"
    assert ask.using(queue="slow").hooks is ask.hooks


# -- keys, queues, ids


def test_one_poll_of_a_key_at_a_time_and_the_next_one_after_it() -> None:
    async def main(app: Headrace) -> list[tuple[str, float]]:
        asked, upstream = list[tuple[str, float]](), Upstream()

        @app.poll(every="10s", give_up_after=25, unique="order-{order_id}", queue="polls")
        async def ask(order_id: str) -> Pending:
            asked.append((order_id, upstream.now()))
            return Pending()

        @ask.on_timeout
        async def in_vain(order_id: str) -> None:
            assert current_job().queue == "polls"
            if len(asked) < 6:
                assert not (await ask.aenqueue(order_id)).duplicate

        async with working_virtually(app):
            upstream.begin()
            jobs = [await ask.aenqueue("17") for _ in range(20)]
            assert len({job.id for job in jobs}) == 1
            await work_for(60)
        return asked

    assert virtually(main) == [("17", float(at)) for at in (0, 10, 20, 25, 35, 45)]


async def test_a_hook_runs_in_the_queue_of_its_poll(unique_name: str) -> None:
    app, seen = Headrace("memory://"), list[tuple[str, str]]()

    @app.poll(every="1s", max_polls=1, queue="polls")
    async def ask() -> bool:
        return True

    @ask.on_final(name=unique_name, priority=7)
    async def final() -> None:
        seen.append((current_job().queue, current_job().task))

    worker = app.worker(["elsewhere"], burst=True)
    await ask.using(queue="elsewhere", id="my-poll").aenqueue()
    await worker.run()
    assert seen == [("elsewhere", unique_name)]


def test_a_poll_that_expires_before_its_first_query_times_out() -> None:
    async def main(app: Headrace) -> tuple[list[str], JobInfo | None]:
        hooks = list[str]()

        @app.poll(every="10s", give_up_after=60)
        async def ask() -> Pending:
            return Pending()

        @ask.on_timeout
        async def in_vain() -> None:
            hooks.append("timeout")

        job = await ask.using(expires=5).aenqueue()
        await work_for(10)
        async with working_virtually(app):
            await work_for(5)
        return hooks, await app.ajobs.get(job.id)

    hooks, poll = virtually(main)
    assert hooks == ["timeout"]
    assert poll is not None
    assert (poll.state.value, poll.reason, poll.counts["polls"]) == ("expired", "timed out", 0)
