"""A job commits with the caller's data, or not at all, whatever library holds the transaction."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from headrace import Headrace, Task
from headrace.core.operations import Claim
from headrace.errors import ConfigError, WrongColour
from tests.transactions.callers import KINDS, Caller, through


def waiting(app: Headrace) -> list[str]:
    return [job.id for job in app.jobs.list("ready").jobs]


def test_a_commit_brings_the_job_and_nothing_does_before(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    job = caller.enqueue(task, 1)
    assert (job.status, job.pending) == ("new", False)
    assert waiting(app) == []
    caller.commit()
    assert waiting(app) == [job.id]


def test_a_rollback_leaves_no_job_and_no_key(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    caller.enqueue(task, 1)
    caller.rollback()
    assert waiting(app) == []
    assert task.enqueue(1).status == "new"


def test_a_rollback_to_a_savepoint_takes_back_what_came_after_it(
    app: Headrace, caller: Caller, task: Task[..., Any]
) -> None:
    caller.order(1)
    kept = caller.enqueue(task, 1)
    caller.savepoint()
    caller.order(2)
    caller.enqueue(task, 2)
    caller.back_to_savepoint()
    caller.commit()
    assert waiting(app) == [kept.id]
    assert task.enqueue(2).status == "new"


def test_a_duplicate_is_no_error_and_spoils_nothing(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    first = task.enqueue(1)
    caller.order(1)
    again = caller.enqueue(task, 1)
    assert (again.status, again.id) == ("duplicate", first.id)
    other = caller.enqueue(task, 2)
    caller.commit()
    assert sorted(waiting(app)) == sorted([first.id, other.id])


def test_a_callers_job_is_a_job_like_any_other(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    job = caller.enqueue(task, 1, priority=7, queue="mail", id="order-1", tags=("first",))
    later = caller.enqueue(task, 2, run_after="1h")
    caller.commit()
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.id, info.queue, info.priority, info.state, info.unique) == ("order-1", "mail", 7, "ready", "1")
    assert [found.id for found in app.jobs.list("scheduled").jobs] == [later.id]


def test_a_queue_is_seen_while_all_its_jobs_run(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    """Nobody has noted it: only jobs of callers' transactions have ever been in it."""
    caller.order(1)
    job = caller.enqueue(task, 1, queue="mail")
    caller.commit()
    (claimed,) = app.driver.run(Claim("w1", 1, ("mail",), 10, 30_000_000)).jobs
    assert claimed.id == job.id
    assert [(queue.name, queue.ready, queue.running) for queue in app.jobs.queues()] == [("mail", 0, 1)]


def test_other_producers_do_not_wait_for_a_long_transaction(
    app: Headrace, kind: str, caller: Caller, task: Task[..., Any]
) -> None:
    """Nor do workers. On SQLite they do: a file has one writer at a time."""
    if KINDS[kind][0] == "sqlite":
        return
    caller.order(1)
    mine = caller.enqueue(task, 1)
    others = [task.enqueue(number).id for number in range(2, 5)]
    assert sorted(waiting(app)) == sorted(others)
    caller.commit()
    assert sorted(waiting(app)) == sorted([mine.id, *others])


def test_the_caller_sees_what_it_has_enqueued_itself(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    first = caller.enqueue(task, 1)
    again = caller.enqueue(task, 1)
    assert (again.status, again.id) == ("duplicate", first.id)
    caller.commit()
    assert waiting(app) == [first.id]


def test_another_database_is_refused_before_anything_is_written(
    caller: Caller, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = Headrace(f"sqlite:///{tmp_path_factory.mktemp('other') / 'jobs.db'}")

    @elsewhere.task(name="mail")
    def mail(order_id: int) -> None:
        """Never run here."""

    elsewhere.jobs.queues()
    caller.order(1)
    with pytest.raises(ConfigError, match="is not one of sqlite:"):
        caller.enqueue(mail, 1)
    caller.commit()
    assert waiting(elsewhere) == []
    elsewhere.close()


def test_the_wrong_colour_is_refused(caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    using = task.using(transaction=caller.handle)
    if caller.awaited:
        with pytest.raises(WrongColour, match="must be awaited"):
            using.enqueue(1)
    else:
        with pytest.raises(WrongColour, match="would block the event loop"):
            caller.runner.run(using.aenqueue(1))


def test_many_jobs_at_once(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    caller.order(1)
    using = task.using(transaction=caller.handle)
    calls = [{"order_id": number} for number in range(1_200)]
    jobs = caller.do(using.aenqueue_many(calls)) if caller.awaited else using.enqueue_many(calls)
    assert {job.status for job in jobs} == {"new"}
    assert app.jobs.queues() == []
    caller.commit()
    assert [view.ready for view in app.jobs.queues()] == [1_200]


def test_what_is_no_transaction_is_refused(app: Headrace, make_caller: Callable[[], Caller], kind: str) -> None:
    @app.task(name="other")
    def other(n: int) -> None:
        """Never run here."""

    with pytest.raises(ConfigError, match="hand over a SQLAlchemy Session"):
        other.using(transaction=object()).enqueue(1)
    if kind == "sqlite3":
        with pytest.raises(ConfigError, match="is in no transaction"):
            make_caller().enqueue(other, 1)


@pytest.mark.parametrize("options", [{"isolation_level": "AUTOCOMMIT"}, {"connect_args": {"isolation_level": None}}])
def test_an_engine_that_commits_each_statement_is_refused(
    options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('autocommit') / 'jobs.db'}"
    with pytest.raises(ConfigError, match="without AUTOCOMMIT"):
        enqueue_into(url, url, **options)


def test_an_engine_of_postgres_that_commits_each_statement_is_refused(postgres_url: str) -> None:
    for options in ({"isolation_level": "AUTOCOMMIT"}, {"connect_args": {"autocommit": True}}):
        with pytest.raises(ConfigError, match="without AUTOCOMMIT"):
            enqueue_into(postgres_url, through(postgres_url, "postgresql+psycopg"), **options)


def enqueue_into(url: str, engine_url: str, **options: Any) -> None:
    app, engine = Headrace(url), create_engine(engine_url, **options)

    @app.task(name="mail")
    def mail(order_id: int) -> None:
        """Never run here."""

    app.jobs.queues()
    try:
        with Session(engine) as session:
            mail.using(transaction=session).enqueue(1)
    finally:
        assert waiting(app) == []
        engine.dispose()
        app.close()


WITHOUT_GREENLET = """
import sys
sys.modules["sqlalchemy.ext.asyncio"] = None  # what an import finds where greenlet is missing
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from headrace import Headrace
from headrace.contrib.sqlalchemy import share_sqlite
url = f"sqlite:///{sys.argv[1]}"
app = Headrace(url)
mail = app.task(name="mail")(lambda: None)
app.jobs.queues()
with Session(share_sqlite(create_engine(url))) as session:
    mail.using(transaction=session).enqueue()
    session.commit()
print(app.jobs.queues()[0].ready)
"""


def test_a_session_needs_nothing_asynchronous(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("plain") / "jobs.db")
    command = [sys.executable, "-c", WITHOUT_GREENLET, path]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "1\n"


def test_what_has_failed_in_a_session_is_said(app: Headrace, make_caller: Callable[[], Caller], kind: str) -> None:
    if kind != "session-psycopg":
        return
    caller = make_caller()

    @app.task(name="other")
    def other(n: int) -> None:
        """Never run here."""

    with pytest.raises(ProgrammingError):
        caller.execute("select no_such_column")
    with pytest.raises(ConfigError, match="has failed"):
        caller.enqueue(other, 1)


def test_a_stale_snapshot_of_sqlite_has_an_error_with_a_name(tmp_path_factory: pytest.TempPathFactory) -> None:
    """B132: a deferred transaction that has read cannot write after others have."""
    path = tmp_path_factory.mktemp("stale") / "jobs.db"
    app = Headrace(f"sqlite:///{path}")

    @app.task(name="mail")
    def mail(order_id: int) -> None:
        """Never run here."""

    mail.enqueue(1)
    connection = sqlite3.connect(path)
    connection.execute("begin")
    connection.execute("select count(*) from headrace_jobs").fetchone()
    mail.enqueue(2)
    with pytest.raises(Exception, match="BEGIN IMMEDIATE"):
        mail.using(transaction=connection).enqueue(3)
    connection.close()
    app.close()
