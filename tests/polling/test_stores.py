"""Polls on every store, with real workers in real time."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from headrace import Cancel, Headrace, Pending, State, current_job
from tests.cases.running import ended, working
from tests.waiting import await_until


async def test_many_polls_with_two_workers_each_end_with_one_hook(app: Headrace) -> None:
    """Some final, some in vain: each is asked by one worker at a time, and has exactly one hook, whatever its end."""
    asked, asking, overlaps, ends = Counter[int](), set[int](), list[int](), Counter[tuple[str, int]]()

    @app.poll(every="20ms", max_polls=4, unique="{number}")
    async def ask(number: int) -> str | Pending:
        if number in asking:
            overlaps.append(number)
        asking.add(number)
        await asyncio.sleep(0)
        asking.discard(number)
        asked[number] += 1
        assert current_job().poll == asked[number]
        return f"paid {number}" if asked[number] == 3 and number % 2 else Pending()

    @ask.on_final
    async def final(number: int, result: str) -> None:
        assert result == f"paid {number}"
        ends["final", number] += 1

    @ask.on_timeout
    async def in_vain(number: int) -> None:
        ends["in vain", number] += 1

    jobs = await ask.aenqueue_many([(number,) for number in range(40)])
    again = await ask.aenqueue_many([(number,) for number in range(40)])
    assert [(job.id, job.status) for job in again] == [(job.id, "duplicate") for job in jobs]
    async with working(app), working(app):
        await await_until(lambda: ends.total() == 40, 60)
        for job in jobs:
            info = await ended(app, job.id)
            assert info is None or (info.state, info.reason, info.counts["polls"]) == (State.EXPIRED, "timed out", 4)
    assert ends == Counter({("final" if number % 2 else "in vain", number): 1 for number in range(40)})
    assert asked == Counter({number: 3 if number % 2 else 4 for number in range(40)})
    assert overlaps == []


async def test_a_deadline_ends_it_without_a_query(app: Headrace) -> None:
    asked, ends = [], []

    @app.poll(every="30s", give_up_after="300ms")
    async def ask(order: dict[str, Any]) -> Pending:
        asked.append(order)
        return Pending()

    @ask.on_timeout
    async def in_vain(order: dict[str, Any]) -> None:
        ends.append(order)

    order = {"id": 17, "name": "Ö\u0000'\"", "lines": [1.5, None]}
    async with working(app):
        job = await ask.aenqueue(order)
        await await_until(lambda: ends)
        info = await ended(app, job.id)
    assert (asked, ends) == ([order], [order])
    assert info is not None
    assert (info.state, info.reason, info.counts["polls"]) == (State.EXPIRED, "timed out", 1)
    assert info.deadline is not None
    assert info.due >= info.deadline


def paid_elsewhere(number: int) -> Any:
    """A plain pre_check, as it asks a database."""
    return {1: None, 2: "paid elsewhere", 3: Cancel("refunded")}[number]


@pytest.mark.parametrize("colour", ["plain", "async"])
async def test_a_plain_pre_check_goes_before_queries_of_both_kinds(app: Headrace, colour: str) -> None:
    seen, ends = [], []

    def ask(number: int) -> str:
        seen.append(number)
        return "paid"

    async def aask(number: int) -> str:
        return ask(number)

    task = app.poll(every="alipay", name="ask")(ask if colour == "plain" else aask)
    checked: list[str] = []

    @task.pre_check
    def check(number: int) -> Any:
        checked.append(current_job().id)
        return paid_elsewhere(number)

    @task.on_final
    async def final(number: int, result: str) -> None:
        ends.append((number, result))

    async with working(app):
        jobs = [await task.aenqueue(number) for number in (1, 2, 3)]
        await await_until(lambda: len(ends) == 2)
        infos = [await ended(app, job.id) for job in jobs]
    assert seen == [1]
    assert sorted(checked) == sorted(job.id for job in jobs)
    assert sorted(ends) == [(1, "paid"), (2, "paid elsewhere")]
    assert [None if info is None else info.state for info in infos] == [None, None, State.CANCELLED]
