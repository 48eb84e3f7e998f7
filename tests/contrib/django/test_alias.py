"""What is particular to Django's transactions; what all callers have in common stands in tests/transactions."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.errors import ConfigError, StoreUnavailable, WrongColour
from tests.contrib.django import inside


@pytest.fixture
def app(sqlite_path: Path, unique_name: str) -> Iterator[Headrace]:
    app = Headrace(f"sqlite:///{sqlite_path}")
    app.jobs.queues()
    inside.add(unique_name, str(sqlite_path))
    yield app
    inside.remove(unique_name)
    app.close()


@pytest.fixture
def task(app: Headrace) -> Task[..., Any]:
    @app.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    return mail


def test_outside_of_atomic_it_is_refused(task: Task[..., Any], unique_name: str) -> None:
    with pytest.raises(ConfigError, match=rf"autocommit.*transaction.atomic\(using='{unique_name}'\)"):
        task.using(transaction=unique_name).enqueue(1)


def test_a_block_that_has_failed_is_refused(app: Headrace, task: Task[..., Any], unique_name: str) -> None:
    from django.db import transaction

    with transaction.atomic(using=unique_name):
        transaction.set_rollback(True, using=unique_name)
        with pytest.raises(ConfigError, match="can only be rolled back"):
            task.using(transaction=unique_name).enqueue(1)
    assert app.jobs.queues() == []


def test_an_unknown_alias_is_named(task: Task[..., Any]) -> None:
    inside.set_up()
    with pytest.raises(ConfigError, match="there is no such alias in DATABASES"):
        task.using(transaction="nowhere").enqueue(1)


def test_without_django_a_text_is_refused(tmp_path: Path) -> None:
    program = """
from headrace import Headrace
from headrace.errors import ConfigError
import sys
app = Headrace("sqlite:///jobs.db")
@app.task
def mail() -> None: ...
try:
    mail.using(transaction="default").enqueue()
except ConfigError as error:
    print(error, "django" in sys.modules)
app.close()
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Django is not set up in this process (django.setup()) False" in ran.stdout


def test_a_coroutine_is_told_what_to_do(task: Task[..., Any], unique_name: str) -> None:
    with pytest.raises(WrongColour, match="would block the event loop: call `enqueue"):
        asyncio.run(task.using(transaction=unique_name).aenqueue(1))


def test_a_savepoint_that_is_rolled_back_wakes_nobody(
    app: Headrace, task: Task[..., Any], unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import transaction

    rung: list[list[str]] = []
    monkeypatch.setattr(app.driver, "ring", rung.append)
    with transaction.atomic(using=unique_name):
        with suppress(LookupError), transaction.atomic(using=unique_name):
            task.using(transaction=unique_name, queue="inner").enqueue(1)
            raise LookupError
        task.using(transaction=unique_name, queue="outer").enqueue(2)
        assert rung == []
    assert rung == [["outer"]]


def test_events_and_messages_go_with_it(app: Headrace, unique_name: str) -> None:
    from django.db import transaction

    for lost in (True, False):
        with transaction.atomic(using=unique_name):
            app.outbox.add(unique_name, "OrderCreated", payload={})
            with app.inbox(unique_name, "message-1") as first:
                assert first
            transaction.set_rollback(lost, using=unique_name)
    assert app.outbox.view().pending == 1
    with transaction.atomic(using=unique_name), app.inbox(unique_name, "message-1") as again:
        assert not again


def test_statements_stand_in_djangos_query_log(task: Task[..., Any], unique_name: str) -> None:
    from django.db import connections, transaction
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connections[unique_name]) as queries, transaction.atomic(using=unique_name):
        task.using(transaction=unique_name).enqueue_many([(1,), (2,)])
    assert any("insert into headrace_jobs" in query["sql"] for query in queries.captured_queries)


def test_a_stale_snapshot_has_an_error_with_a_name(app: Headrace, task: Task[..., Any], unique_name: str) -> None:
    """B132: without transaction_mode IMMEDIATE, a transaction that has read cannot write after others have."""
    from django.db import connections, transaction

    connections[unique_name].settings_dict["OPTIONS"] = {}

    def read_and_enqueue() -> None:
        with transaction.atomic(using=unique_name):
            with connections[unique_name].cursor() as cursor:
                cursor.execute("select count(*) from headrace_jobs").fetchone()
            task.enqueue(1)
            task.using(transaction=unique_name).enqueue(2)

    with pytest.raises(StoreUnavailable, match='"transaction_mode": "IMMEDIATE"'):
        read_and_enqueue()
    assert len(app.jobs.list("ready").jobs) == 1
