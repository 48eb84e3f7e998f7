"""A job that its handler ends in a transaction of its own: effect and end commit together, or neither does."""

import logging
import threading
from contextvars import copy_context

import pytest

from headrace import Fixed, Headrace, Retry, current_job
from headrace.core.operations import Leave
from headrace.errors import LeaseLost
from headrace.worker import Worker
from tests.transactions.callers import KINDS, Caller
from tests.transactions.shift import Open, Told, at_work, complete, orders, state, wait_for
from tests.waiting import wait_until

AGAIN = Retry(max_attempts=2, backoff=Fixed(0))
KEEP = 3600


def test_effect_and_end_commit_together(app: Headrace, caller: Caller, opening: Open) -> None:
    seen, told = [], Told()
    app.middleware.append(told)

    @app.task(name="work", unique="{n}")
    def work(n: int) -> None:
        with opening() as mine:
            mine.order(n)
            complete(mine)
            seen.append(state(app, current_job().id))  # nobody else sees it yet
            mine.commit()
            seen.append(state(app, current_job().id))

    job = work.enqueue(7)
    with at_work(app):
        wait_until(lambda: told.states == ["succeeded"], 30)
        assert seen == ["running", "gone"]
        assert work.using(run_after=KEEP).enqueue(7).status == "new"  # its key is free
    assert (state(app, job.id), orders(caller)) == ("gone", [7])


def test_a_kept_job_is_kept(app: Headrace, opening: Open) -> None:
    @app.task(name="work", keep=KEEP)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            mine.commit()

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "succeeded")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.state, info.counts["attempts"]) == ("succeeded", 0)


def test_a_rollback_is_a_failed_attempt_and_never_a_success(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work", retry=AGAIN, keep=KEEP)
    def work() -> None:
        with opening() as mine:
            mine.order(current_job().attempt)
            complete(mine)
            if current_job().attempt == 2:
                mine.commit()
            else:
                mine.rollback()

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "succeeded")
    info = app.jobs.get(job.id)
    assert info is not None
    assert [(mishap.type, mishap.attempt) for mishap in info.history] == [("RolledBack", 1)]
    assert "commit before you return" in info.history[0].message
    assert orders(caller) == [2]


def test_a_rollback_to_a_savepoint_takes_the_end_back(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work", retry=1)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            mine.savepoint()
            complete(mine)
            mine.back_to_savepoint()
            mine.commit()

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "failed")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.reason, orders(caller)) == ("RolledBack", [1])


def test_an_error_before_the_commit_is_an_ordinary_one(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work", retry=1)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            raise ValueError("no")

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "failed")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.reason, info.counts["errors"], orders(caller)) == ("ValueError", 1, [])


def test_an_error_after_the_commit_changes_nothing_and_is_logged(
    app: Headrace, caller: Caller, opening: Open, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    app.middleware.append(told)

    @app.task(name="work", keep=KEEP)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            mine.commit()
        raise ValueError("after the fact")

    job = work.enqueue()
    with at_work(app):
        wait_until(lambda: told.states == ["succeeded"], 30)
    assert (state(app, job.id), orders(caller)) == ("succeeded", [1])
    (line,) = [record for record in caplog.records if "its handler has raised since" in record.message]
    assert line.levelno == logging.ERROR
    assert "after the fact" in (line.exc_text or str(line.exc_info))


@pytest.mark.parametrize("committing", [True, False])
def test_a_handler_that_returns_before_its_commit_is_waited_for(
    app: Headrace, kind: str, caller: Caller, opening: Open, committing: bool
) -> None:
    """The worker is not held up by its locks, and nothing runs twice."""
    returned, go_on, runs = threading.Event(), threading.Event(), []

    def transact() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            returned.set()
            go_on.wait(60)
            if committing:
                mine.commit()

    @app.task(name="work", keep=KEEP, retry=1)
    def work() -> None:
        runs.append(current_job().attempt)
        threading.Thread(target=copy_context().run, args=(transact,)).start()
        returned.wait(30)

    @app.task(name="quick", keep=KEEP)
    def quick() -> None:
        """Others go on."""

    job = work.enqueue()
    with at_work(app, concurrency=1):
        assert returned.wait(30)
        if KINDS[kind][0] != "sqlite":  # a file has one writer at a time
            wait_for(app, quick.enqueue().id, "succeeded")
        assert state(app, job.id) == "running"
        go_on.set()
        wait_for(app, job.id, "succeeded" if committing else "failed")
    assert (runs, orders(caller)) == ([1], [1] if committing else [])


def test_whoever_has_lost_the_job_cannot_end_it(app: Headrace, caller: Caller, opening: Open) -> None:
    """The store has given it back meanwhile: the effect is rolled back with the error, and another run counts."""
    runs: list[int] = []
    errors: list[LeaseLost] = []
    workers: list[Worker] = []

    @app.task(name="work")
    def work() -> None:
        runs.append(current_job().token)
        with opening() as mine:
            if len(runs) == 1:
                app.driver.run(Leave(workers[0].id, ("default",)))
            mine.order(len(runs))
            try:
                complete(mine)
            except LeaseLost as error:
                errors.append(error)
                raise
            mine.commit()

    with at_work(app, concurrency=1) as worker:
        workers.append(worker)
        job = work.enqueue()
        wait_until(lambda: state(app, job.id) == "gone", 30)
    assert (len(runs), orders(caller)) == (2, [2])
    assert runs[0] < runs[1]
    assert "is not held any more" in str(errors[0])


def test_a_second_end_is_refused(app: Headrace, caller: Caller, opening: Open) -> None:
    @app.task(name="work", retry=1)
    def work() -> None:
        with opening() as mine:
            mine.order(1)
            complete(mine)
            complete(mine)

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "failed")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.reason, orders(caller)) == ("LeaseLost", [])
