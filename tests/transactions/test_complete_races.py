"""What comes between a handler that ends its job itself and the worker that hears of it."""

import logging
from typing import Any

import pytest

from headrace import Headrace, Snooze, current_job
from headrace.context import JobContext
from headrace.core.operations import Claim, Outcome, Rescue, Settle
from headrace.core.states import State
from headrace.core.transactions import Completed
from headrace.drivers.memory import MemoryDriver
from headrace.errors import LeaseLost, TaskError
from headrace.stores.memory import MemoryStore
from headrace.transactions import Transactions, lend
from headrace.worker import Worker
from tests.transactions.callers import KINDS, Caller
from tests.transactions.shift import Open, Told, at_work, beaten, complete, orders, state, wait_for
from tests.waiting import wait_until

KEEP = 3600


@pytest.fixture(params=["sqlite3", "psycopg", "session-psycopg-async", "session-pymysql"])
def kind(request: pytest.FixtureRequest) -> str:
    """One caller for each database, and one that is awaited."""
    return str(request.param)


@pytest.fixture
def app(kind: str, place: str, unique_name: str) -> Any:
    url = f"sqlite:///{place}" if KINDS[kind][0] == "sqlite" else place
    app = Headrace(url, name=unique_name, lease=1.5, heartbeat=0.2, busy_timeout=0.5)
    app.jobs.queues()
    yield app
    app.close()


def test_a_heartbeat_after_the_commit_neither_loses_nor_stops_the_job(
    app: Headrace, caller: Caller, opening: Open, caplog: pytest.LogCaptureFixture
) -> None:
    told, workers, asked = Told(), [], []
    app.middleware.append(told)

    @app.task(name="work")
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            mine.commit()
        beaten(workers[0])
        asked.append(current_job().cancel_requested)

    with at_work(app) as worker:
        workers.append(worker)
        work.enqueue()
        wait_until(lambda: told.states == ["succeeded"], 30)
    assert asked == [False]
    assert not [line.message for line in caplog.records if line.levelno >= logging.WARNING]
    assert orders(caller) == [1]


def test_a_request_to_cancel_that_comes_before_the_end_is_too_late_after_it(
    app: Headrace, caller: Caller, opening: Open
) -> None:
    workers: list[Worker] = []

    @app.task(name="work", keep=KEEP)
    def work() -> None:
        with opening() as mine:
            assert app.jobs.cancel(current_job().id) == "requested"
            mine.order(1)
            complete(mine)
            mine.commit()
        beaten(workers[0])

    with at_work(app) as worker:
        workers.append(worker)
        job = work.enqueue()
        wait_for(app, job.id, "succeeded")
    assert orders(caller) == [1]


def test_a_request_to_cancel_ends_what_was_rolled_back(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work")
    def work() -> None:
        with opening() as mine:
            app.jobs.cancel(current_job().id)
            mine.order(1)
            complete(mine)
            mine.rollback()

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "cancelled")
    assert orders(caller) == []


@pytest.mark.parametrize("committing", [True, False])
def test_a_thread_that_overruns_its_timeout_is_waited_for(
    app: Headrace, caller: Caller, opening: Open, committing: bool
) -> None:
    """Between its completion and its commit: the last attempt, which would otherwise have failed at once."""
    workers, runs = [], []

    @app.task(name="work", keep=KEEP, retry=1, timeout=1)
    def work() -> None:
        runs.append(current_job().attempt)
        with opening() as mine:
            mine.order(1)
            complete(mine)
            wait_until(lambda: workers and workers[0].executor.stuck == 1, 30)
            if committing:
                mine.commit()

    with at_work(app) as worker:
        workers.append(worker)
        job = work.enqueue()
        wait_for(app, job.id, "succeeded" if committing else "failed")
    assert (runs, orders(caller)) == ([1], [1] if committing else [])


def test_a_thread_whose_job_has_timed_out_for_good_cannot_end_it(app: Headrace, caller: Caller, opening: Open) -> None:
    errors: list[LeaseLost] = []

    @app.task(name="work", retry=1, timeout=0.2)
    def work() -> None:
        wait_until(lambda: state(app, current_job().id) == "failed", 30)
        with opening() as mine:
            mine.order(1)
            try:
                complete(mine)
            except LeaseLost as error:
                errors.append(error)
                raise

    job = work.enqueue()
    with at_work(app) as worker:
        wait_for(app, job.id, "failed")
        wait_until(lambda: errors and worker.executor.stuck == 0, 30)
    assert "its end has been decided" in str(errors[0])
    assert (state(app, job.id), orders(caller)) == ("failed", [])


def test_what_a_run_leaves_behind_cannot_end_its_job(app: Headrace, caller: Caller, opening: Open) -> None:
    left: list[JobContext] = []

    @app.task(name="work", keep=KEEP)
    def work() -> None:
        left.append(current_job())

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "succeeded")
    caller.order(1)
    with pytest.raises(LeaseLost, match="the run of this job is over"):
        complete(caller, left[0])
    caller.rollback()


def test_twice_is_once_where_the_handler_has_ended_the_job(app: Headrace, caller: Caller, opening: Open) -> None:
    told = Told()
    app.middleware.append(told)

    @app.task(name="work")
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            mine.commit()

    work.enqueue()
    with at_work(app, twice=True):
        wait_until(lambda: told.states == ["succeeded"], 30)
    assert orders(caller) == [1]


def test_a_verdict_stands_after_a_rollback_and_not_after_a_commit(
    app: Headrace, caller: Caller, opening: Open, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    app.middleware.append(told)

    @app.task(name="work", keep=KEEP)
    def work() -> Snooze:
        with opening() as mine:
            first = not told.states
            mine.order(1 if first else 2)
            complete(mine)
            if first:
                mine.rollback()
            else:
                mine.commit()
        return Snooze(0.01)

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "succeeded")
        wait_until(lambda: len(told.states) == 2, 30)
    assert (told.states, orders(caller)) == (["scheduled", "succeeded"], [2])
    assert [line for line in caplog.records if "has answered Snooze since" in line.message]


def test_another_database_is_refused_and_spoils_nothing(
    app: Headrace, caller: Caller, opening: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Headrace(f"sqlite:///{tmp_path_factory.mktemp('other') / 'jobs.db'}")

    @elsewhere.task(name="work", retry=1)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)

    job = work.enqueue()
    with at_work(elsewhere):
        wait_for(elsewhere, job.id, "failed")
    info = elsewhere.jobs.get(job.id)
    assert info is not None
    assert "or end them" in info.history[0].message
    assert info.reason == "ConfigError"
    elsewhere.close()


def test_a_store_without_transactions_says_so(caller: Caller) -> None:
    app = Headrace("memory://")
    app.driver = MemoryDriver(MemoryStore())

    @app.task(name="work", retry=1)
    def work() -> None:
        complete(caller)

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "failed")
        info = app.jobs.get(job.id)
    assert info is not None
    assert info.reason == "ConfigError"
    assert "let the handler return to end it" in info.history[0].message


def test_there_is_nothing_to_complete_outside_of_a_worker() -> None:
    job = JobContext(id="1", task="work", queue="default", attempt=1, token=1, enqueued_us=0)
    with pytest.raises(TaskError, match="run by no worker"):
        job.complete(transaction=object())


@pytest.mark.parametrize("kind", ["psycopg", "session-pymysql"], indirect=True)
def test_a_completion_that_stays_open_does_not_keep_others_from_being_rescued(app: Headrace, caller: Caller) -> None:
    """Its worker is dead for all others, frozen or cut off; the server still has its transaction."""

    @app.task(name="work")
    def work() -> None:
        """Never run here."""

    first, second = work.enqueue(), work.enqueue()
    claimed = app.driver.run(Claim("frozen", 1, ("default",), 2, 1)).jobs
    (job,) = (job for job in claimed if job.id == first.id)
    settle = Settle("frozen", (Outcome(job.id, job.queue, job.token, State.SUCCEEDED),))
    caller.order(1)
    assert Transactions.on(app.driver).run(lend(caller.handle), settle) == [True]
    rescued = app.driver.run(Rescue(("default",))).jobs
    assert [(orphan.id, orphan.alone) for orphan in rescued] == [(second.id, False)]
    assert app.driver.run(Completed(job.id, job.token)) == "open"
    caller.rollback()
    assert app.driver.run(Completed(job.id, job.token)) == "no"
    assert [orphan.id for orphan in app.driver.run(Rescue(("default",))).jobs] == [first.id]
