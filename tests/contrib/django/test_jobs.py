"""Handlers of a Django project that end their jobs in a transaction of Django's, and jobs for after a commit."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import current_job
from tests.contrib.django import inside
from tests.contrib.django.inside import own_tables, work

inside.set_up()

from django.db import transaction  # noqa: E402
from djangoshop.orders.models import Mail  # noqa: E402

from headrace.contrib.django import app  # noqa: E402


@pytest.fixture(autouse=True)
def tables(tmp_path: Path) -> Iterator[None]:
    with own_tables(tmp_path):
        app.jobs.queues()  # opens the file: that cannot be done while it is locked
        yield


@app.task(name="shop.send", retry=1)
def send(number: int, then: str = "") -> None:
    """The mail's row and the end of the job commit together."""
    with transaction.atomic():
        Mail.objects.create(number=number, by="complete")
        current_job().complete(transaction="default")
        if then == "fail":
            raise LookupError("before the commit")


def test_a_row_and_the_end_of_its_job_commit_together() -> None:
    job, failing = send.enqueue(1), send.enqueue(2, then="fail")
    work()
    assert app.jobs.get(job.id) is None
    failed: Any = app.jobs.get(failing.id)
    assert (failed.state, failed.reason) == ("failed", "LookupError")
    assert [mail.number for mail in Mail.objects.all()] == [1]


def test_joining_a_transaction_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with transaction.atomic():
        assert app.joined() == "default"
    assert app.joined() is None
    monkeypatch.setattr(app, "settings", replace(app.settings, joins=False))
    with transaction.atomic():
        assert app.joined() is None


def test_a_job_for_after_the_commit_is_enqueued_then_and_only_then() -> None:
    using = send.using(transaction="default", after_commit=True)
    with suppress(LookupError), transaction.atomic():
        using.enqueue(1)
        raise LookupError
    with transaction.atomic():
        with suppress(LookupError), transaction.atomic():
            using.enqueue(2)
            raise LookupError
        kept = using.enqueue(3)
        assert kept.pending
        assert app.jobs.list("ready").jobs == ()
    assert [job.id for job in app.jobs.list("ready").jobs] == [kept.id]
