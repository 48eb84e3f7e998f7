"""Effect and once record in one transaction: they commit together, or neither does."""

import json
from typing import Any

import pytest

from headrace import ConfigError, Fixed, Headrace, LeaseLost, Retry, RolledBack, current_job
from headrace.core.once import task_scope
from headrace.core.once_records import EndOnce, LookOnce
from headrace.core.operations import OnceEnd
from headrace.once import OnceRun
from tests.transactions.callers import Caller
from tests.transactions.shift import Open, at_work, orders, state, wait_for
from tests.waiting import wait_until

KEEP = 3600


def complete(caller: Caller, run: OnceRun, result: Any = None) -> None:
    """In whatever colour the caller has."""
    if caller.awaited:
        caller.do(run.acomplete(result, transaction=caller.handle))
    else:
        run.complete(result, transaction=caller.handle)


def test_a_block_and_its_effect_commit_together(app: Headrace, caller: Caller) -> None:
    with app.once("k") as run:
        caller.order(1)
        complete(caller, run, {"order": 1})
        caller.commit()
    with app.once("k") as again:
        assert (again.done, again.result, again.fence) == (True, {"order": 1}, run.fence)
    assert orders(caller) == [1]


def test_a_block_whose_transaction_was_not_committed_has_not_taken_effect(app: Headrace, caller: Caller) -> None:
    def roll_back() -> None:
        with app.once("k") as run:
            caller.order(1)
            complete(caller, run)
            caller.rollback()

    with pytest.raises(RolledBack, match="the once key 'k' was not committed"):
        roll_back()
    assert orders(caller) == []
    with app.once("k", wait=20) as again:  # long before the lease would be over
        assert not again.done
        caller.order(2)
        complete(caller, again)
        caller.commit()
    assert orders(caller) == [2]


def test_a_block_that_rolls_back_and_raises_leaves_the_key_free(app: Headrace, caller: Caller) -> None:
    def broken(run: OnceRun) -> None:
        caller.order(1)
        complete(caller, run)
        caller.rollback()
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"), app.once("k") as run:
        broken(run)
    with app.once("k") as again:
        assert not again.done


def raise_inside(app: Headrace, caller: Caller) -> None:
    """A block inside of an open transaction, in the caller's colour."""

    async def block() -> None:
        async with app.once("k") as run:
            await caller.execute(f"insert into {caller.table} (number) values (1)")
            await run.acomplete({"order": 1}, transaction=caller.handle)
            raise ValueError("declined")

    if caller.awaited:
        caller.do(block())
    else:
        with app.once("k") as run:
            caller.order(1)
            run.complete({"order": 1}, transaction=caller.handle)
            raise ValueError("declined")


@pytest.mark.parametrize("committed", [False, True])
def test_a_block_that_raises_inside_of_its_transaction(app: Headrace, caller: Caller, *, committed: bool) -> None:
    """It does not wait for a lock that its own caller holds; the key is free once that has rolled back."""
    with pytest.raises(ValueError, match="declined"):
        raise_inside(app, caller)
    if committed:
        caller.commit()
    else:
        caller.rollback()
    with app.once("k", wait=20) as again:
        assert (again.done, again.result) == (committed, {"order": 1} if committed else None)
    assert orders(caller) == ([1] if committed else [])


def test_a_block_that_has_lost_the_key_rolls_back(app: Headrace, caller: Caller) -> None:
    def robbed() -> None:
        with app.once("k") as run:
            assert app.driver.run(EndOnce(run._owner, OnceEnd("once:", "k", run.fence, "free")))
            caller.order(1)
            try:
                complete(caller, run)
            finally:
                caller.rollback()

    with pytest.raises(LeaseLost, match="roll back"):
        robbed()
    assert orders(caller) == []


def test_a_job_its_result_and_its_effect_commit_together(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work", once="{n}", keep=KEEP)
    def work(n: int) -> None:
        with opening() as mine:
            mine.order(n)
            job = current_job()
            if mine.awaited:
                mine.do(job.acomplete(transaction=mine.handle, result={"order": n}))
            else:
                job.complete(transaction=mine.handle, result={"order": n})
            mine.commit()

    jobs = [work.enqueue(7), work.enqueue(7)]
    with at_work(app, concurrency=2):
        for job in jobs:
            wait_for(app, job.id, "succeeded")
    assert orders(caller) == [7]
    view = app.driver.run(LookOnce(task_scope("work"), "7", "default"))
    assert view is not None
    assert (view.state, json.loads(view.result or b"")) == ("done", {"order": 7})


def test_a_job_that_rolls_back_leaves_the_key_to_its_retry(app: Headrace, caller: Caller, opening: Open) -> None:
    fences = []

    @app.task(name="work", once="{n}", retry=Retry(max_attempts=2, backoff=Fixed(0)))
    def work(n: int) -> None:
        fences.append(current_job().fence)
        with opening() as mine:
            mine.order(n)
            job = current_job()
            if mine.awaited:
                mine.do(job.acomplete(transaction=mine.handle))
            else:
                job.complete(transaction=mine.handle)
            if len(fences) == 1:
                mine.rollback()
            else:
                mine.commit()

    job = work.enqueue(7)
    with at_work(app):
        wait_until(lambda: state(app, job.id) == "gone", 30)
    assert orders(caller) == [7]
    assert len(fences) == 2
    assert fences[0] < fences[1]


def test_what_a_block_cannot_complete_in() -> None:
    app = Headrace("memory://")
    with app.once("k") as run, pytest.raises(ConfigError, match="no transaction of your database reaches"):
        run.complete(transaction=object())
    with app.once("k") as again, pytest.raises(Exception, match="there is nothing to complete"):
        again.complete(transaction=object())
