"""A job that ends in a caller's transaction: its record ends, and what follows is enqueued, with it or not at all."""

from typing import Any

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.once_records import LookOnce, OnceClaim, TakeOnce
from headrace.core.states import State
from headrace.testing.conformance.harness import job
from headrace.transactions import Transactions, alend, lend
from tests.transactions.callers import Caller
from tests.transactions.shift import Open

LEASE_US = 3600 * 1_000_000
FOLLOWERS = (job("then", "q"), job("then 2", "q", unique="u"), job("duplicate", "q", unique="u"), job("first", "q"))


def settled(app: Headrace, caller: Caller, outcome: ops.Outcome) -> list[bool]:
    """The answers, in whatever colour the caller has."""
    transactions, settle = Transactions.on(app.driver), ops.Settle("w", (outcome,))
    if caller.awaited:
        answers: list[bool] = caller.do(_asettled(transactions, caller, settle))
        return answers
    return transactions.run(lend(caller.handle), settle)


async def _asettled(transactions: Transactions, caller: Caller, settle: ops.Settle) -> list[bool]:
    return await transactions.arun(alend(caller.handle), settle)


def state(app: Headrace, id: str) -> State | None:
    view = app.driver.run(ops.Get(id, "q"))
    return None if view is None else view.state


def record(app: Headrace) -> Any:
    view = app.driver.run(LookOnce("task", "k", "q"))
    return None if view is None else (view.state, view.result)


@pytest.fixture
def outcome(app: Headrace, opening: Open) -> ops.Outcome:
    """The end of a job that runs and holds its record."""
    app.driver.run(ops.Enqueue((job("first", "q"),)))
    (claimed,) = app.driver.run(ops.Claim("w", 1, ("q",), 1, LEASE_US)).jobs
    claim = OnceClaim("task", "k", b"p" * 32, claimed.id, claimed.token, "q")
    (taken,) = app.driver.run(TakeOnce((claim,)))
    assert taken.status == "mine"
    once = ops.OnceEnd("task", "k", taken.fence, "done", b"17", LEASE_US)
    return ops.Outcome(claimed.id, "q", claimed.token, State.SUCCEEDED, once=once, then=FOLLOWERS)


def test_a_commit_ends_the_record_and_enqueues_what_follows(
    app: Headrace, caller: Caller, outcome: ops.Outcome
) -> None:
    caller.order(1)
    assert settled(app, caller, outcome) == [True]
    caller.commit()
    assert [state(app, id) for id in ("first", "then", "then 2", "duplicate")] == [None, State.READY, State.READY, None]
    assert record(app) == ("done", b"17")


def test_a_rollback_leaves_the_job_its_record_and_nothing_that_follows(
    app: Headrace, caller: Caller, outcome: ops.Outcome
) -> None:
    caller.order(1)
    assert settled(app, caller, outcome) == [True]
    caller.rollback()
    assert [state(app, id) for id in ("first", "then", "then 2")] == [State.RUNNING, None, None]
    assert record(app) == ("held", None)
    assert app.driver.run(ops.Settle("w", (outcome,))) == [True]


def test_a_job_that_has_lost_its_record_changes_nothing(app: Headrace, caller: Caller, outcome: ops.Outcome) -> None:
    assert outcome.once is not None
    stale = ops.OnceEnd("task", "k", outcome.once.fence - 1, "done")
    caller.order(1)
    assert settled(
        app, caller, ops.Outcome("first", "q", outcome.token, State.SUCCEEDED, once=stale, then=FOLLOWERS)
    ) == [False]
    caller.commit()
    assert [state(app, id) for id in ("first", "then", "then 2")] == [State.RUNNING, None, None]
    assert record(app) == ("held", None)
