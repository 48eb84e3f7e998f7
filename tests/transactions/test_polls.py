"""A query that ends its poll in a transaction of its own: effect, end and hook commit together, or none does."""

from typing import Any

import pytest

from headrace import Fixed, Headrace, InvalidArguments, PollTask, Retry, current_job
from tests.transactions.callers import Caller
from tests.transactions.shift import Open, at_work, orders, state, wait_for
from tests.waiting import wait_until


def complete(caller: Caller, result: Any) -> None:
    """End the running poll with a final value, in whatever colour the caller has."""
    job = current_job()
    if caller.awaited:
        caller.do(job.acomplete(transaction=caller.handle, result=result))
    else:
        job.complete(transaction=caller.handle, result=result)


def ask_with(app: Headrace, results: list[Any], hooks: list[int], opening: Open, *, commit: bool = True) -> PollTask:
    """A poll that ends itself with the next one of `results`."""

    @app.poll(every="1s", max_polls=9, name="ask", retry=Retry(2, backoff=Fixed(0)))
    def ask(number: int) -> None:
        with opening() as mine:
            mine.order(number)
            complete(mine, results.pop(0))
            if commit or not results:
                mine.commit()

    @ask.on_final(name="final")
    def final(number: int, result: int) -> None:
        hooks.append(number + result)

    return ask


def test_effect_end_and_hook_commit_together(app: Headrace, caller: Caller, opening: Open) -> None:
    hooks = list[int]()
    ask = ask_with(app, [500], hooks, opening)
    with at_work(app):
        job = ask.enqueue(7)
        wait_until(lambda: hooks, 30, "the hook")
        wait_until(lambda: state(app, f"{job.id}/end") == "gone", 30, "the hook's end")
    assert (hooks, orders(caller), state(app, job.id)) == ([507], [7], "gone")


def test_a_rollback_takes_the_hook_back(app: Headrace, caller: Caller, opening: Open) -> None:
    hooks = list[int]()
    ask = ask_with(app, [500, 600], hooks, opening, commit=False)
    with at_work(app):
        ask.enqueue(7)
        wait_until(lambda: hooks, 30, "the hook")
    assert (hooks, orders(caller)) == ([607], [7])


def test_a_result_that_does_not_fit_ends_nothing(app: Headrace, caller: Caller, opening: Open) -> None:
    hooks, told = list[int](), list[str]()

    @app.poll(every="1s", max_polls=9, name="ask", retry=Retry(1))
    def ask(number: int) -> None:
        with opening() as mine:
            mine.order(number)
            for result, match in ((None, "returned None"), ("many", "argument 'result'")):
                with pytest.raises(InvalidArguments, match=match):
                    complete(mine, result)
                told.append(match)
            complete(mine, 1)
            mine.commit()

    @ask.on_final(name="final")
    def final(number: int, result: int) -> None:
        hooks.append(result)

    with at_work(app):
        job = ask.enqueue(7)
        assert wait_for(app, job.id, "gone", "failed") == "gone"
        wait_until(lambda: hooks, 30, "the hook")
    assert (len(told), hooks, orders(caller)) == (2, [1], [7])
