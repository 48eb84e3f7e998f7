"""When a poll asks and when it ends, on a virtual clock."""

from typing import Any

import pytest

from headrace import Headrace, Pending, current_job
from headrace.jobinfo import JobInfo
from tests.polling.asking import Upstream
from tests.worker.working import virtually, work_for, working_virtually


def test_the_stepped_poll_of_three_minutes() -> None:
    """At exactly 0 1 2 3 4 5, 10 15 20 25 30, 40 50 ... 130, 160 s; at 180 s it times out, once, without a query."""

    async def main(app: Headrace) -> tuple[Upstream, list[tuple[str, float, int, str]], list[int], JobInfo | None]:
        upstream, ended, numbers = Upstream(), list[tuple[str, float, int, str]](), list[int]()

        @app.poll(every="1s x5, 5s x5, 10s x10, 30s", give_up_after="3m", unique="order-{order_id}")
        async def sync_order(order_id: int) -> str | Pending:
            numbers.append(current_job().poll)
            answer: str | Pending = upstream.ask()
            return answer

        @sync_order.on_timeout
        async def give_up(order_id: int) -> None:
            ended.append(("timeout", upstream.now(), order_id, current_job().id))

        @sync_order.on_final
        async def pay(order_id: int, result: str) -> None:
            ended.append((result, upstream.now(), order_id, current_job().id))

        async with working_virtually(app):
            upstream.begin()
            job = await sync_order.aenqueue(order_id=17)
            await work_for(101)
            assert (await sync_order.aenqueue(order_id=17)).id == job.id
            await work_for(200)
            info = await app.ajobs.get(job.id)
        assert [id for *_, id in ended] == [f"{job.id}/end"]
        return upstream, ended, numbers, info

    upstream, ended, numbers, info = virtually(main)
    assert upstream.times == [0, 1, 2, 3, 4, 5, 10, 15, 20, 25, 30, *range(40, 131, 10), 160]
    assert numbers == list(range(1, 23))
    assert [end[:3] for end in ended] == [("timeout", 180, 17)]
    assert info is not None
    assert (info.state, info.reason) == ("expired", "timed out")


@pytest.mark.parametrize(
    ("every", "options", "expected", "lasts"),
    [
        ("alipay", {"give_up_after": "1h"}, [0, 240, 840, 1440], 4_000),
        ("10s", {"max_polls": 3}, [0, 10, 20], 100),
        ("5s, 1m", {"give_up_after": 125.5}, [0, 5, 65, 125], 200),
        ("5s, 1m", {"give_up_after": 125}, [0, 5, 65], 200),
    ],
)
def test_schedules_to_their_end(every: str, options: dict[str, Any], expected: list[float], lasts: float) -> None:
    async def main(app: Headrace) -> tuple[list[float], list[float]]:
        upstream, ended = Upstream(), list[float]()

        @app.poll(every=every, **options)
        async def ask() -> Pending:
            answer: Pending = upstream.ask()
            return answer

        @ask.on_timeout
        async def give_up() -> None:
            ended.append(upstream.now())

        async with working_virtually(app):
            upstream.begin()
            await ask.aenqueue()
            await work_for(lasts)
        return upstream.times, ended

    times, ended = virtually(main)
    assert times == expected
    give_up = {"1h": 3600}.get(options.get("give_up_after"), options.get("give_up_after"))
    assert ended == [expected[-1] if give_up is None else give_up]
