"""Django's tasks framework on headrace: what it enqueues, and what becomes of it."""

import asyncio
import importlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import Retry
from tests.contrib.django import inside
from tests.contrib.django.inside import own_tables, work
from tests.waiting import wait_until

inside.set_up()

from django.db import transaction  # noqa: E402
from django.test.utils import modify_settings, override_settings  # noqa: E402
from django.utils import timezone  # noqa: E402

from headrace.contrib.django import app  # noqa: E402
from headrace.contrib.django.backend import HeadraceBackend  # noqa: E402
from headrace.contrib.django.framework import (  # noqa: E402
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
)
from headrace.contrib.django.registry import backend_queues  # noqa: E402


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Any]:
    """The shop's tasks, on a database of the test's own: the app follows, as it does to the database of tests."""
    with own_tables(tmp_path):
        yield importlib.import_module("djangoshop.orders.tasks")


def test_a_result_from_first_to_last(tasks: Any) -> None:
    result = tasks.notify.enqueue(7, by="me")
    assert (result.status, result.args, result.kwargs, result.attempts) == (
        TaskResultStatus.READY,
        [7],
        {"by": "me"},
        0,
    )
    assert tasks.notify.get_result(result.id).status == TaskResultStatus.READY
    work()
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.SUCCESSFUL, 1, [])
    assert result.finished_at >= result.enqueued_at
    assert result.is_finished
    with pytest.raises(ValueError, match="does not keep what a task returns"):
        _ = result.return_value


def test_options_of_a_call(tasks: Any) -> None:
    later = timezone.now() + timedelta(hours=1)
    first = tasks.notify.using(queue_name="default", priority=-100, run_after=later).enqueue(1)
    info = app.jobs.get(first.id)
    assert info is not None
    assert (info.queue, info.priority, info.state, info.due) == ("default", -100, "scheduled", later)
    found = tasks.notify.get_result(first.id)
    assert (found.task.queue_name, found.task.priority, found.task.run_after) == ("default", -100, later)
    for wrong in ({"priority": 101}, {"queue_name": "nobody's"}):
        with pytest.raises(InvalidTask):
            tasks.notify.using(**wrong)


def test_a_failure_is_told_with_its_exception(tasks: Any) -> None:
    """The framework's receivers hear of the end, not of each attempt."""
    heard: list[Any] = []
    task_finished.connect(receiver := lambda task_result, **_: heard.append(task_result))
    result = tasks.broken.enqueue(1)
    work()
    result.refresh()
    assert (result.status, result.attempts, heard) == (TaskResultStatus.READY, 1, [])  # to be run again
    assert result.errors[0].exception_class.__name__ == "ObjectDoesNotExist"  # the nearest that can be imported
    assert "no mail 1" in result.errors[0].traceback

    def failed() -> bool:
        work()
        return bool(tasks.broken.get_result(result.id).status == TaskResultStatus.FAILED)

    wait_until(failed, 30)
    task_finished.disconnect(receiver)
    result.refresh()
    assert (result.attempts, len(result.errors), [each.id for each in heard]) == (2, 2, [result.id])
    assert (heard[0].status, len(heard[0].errors)) == (TaskResultStatus.FAILED, 2)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value


def test_inside_of_atomic_it_belongs_to_the_transaction(tasks: Any) -> None:
    """B116, B118: it has its id at once, and is there after the commit only."""
    with suppress(LookupError), transaction.atomic():
        lost = tasks.notify.enqueue(1)
        raise LookupError
    with pytest.raises(TaskResultDoesNotExist):
        tasks.notify.get_result(lost.id)
    with transaction.atomic():
        kept = tasks.notify.enqueue(2)
        with pytest.raises(TaskResultDoesNotExist):
            tasks.notify.get_result(kept.id)
    assert tasks.notify.get_result(kept.id).status == TaskResultStatus.READY


def test_a_coroutine_may_enqueue_and_look(tasks: Any) -> None:
    async def both() -> Any:
        made = await tasks.anotify.aenqueue(3)
        return await tasks.anotify.aget_result(made.id)

    assert asyncio.run(both()).status == TaskResultStatus.READY
    app.close()


def test_the_context_counts_attempts(tasks: Any) -> None:
    result = tasks.counted.enqueue(1)
    work()
    assert tasks.counted.get_result(result.id).attempts == 1
    models = importlib.import_module("djangoshop.orders.models")
    assert [mail.by for mail in models.Mail.objects.all()] == ["attempt 1"]


def test_a_job_that_is_cancelled_has_failed(tasks: Any) -> None:
    result = tasks.notify.enqueue(1)
    assert app.jobs.cancel(result.id) == "cancelled"
    assert tasks.notify.get_result(result.id).status == TaskResultStatus.FAILED


def test_jobs_of_others_are_no_results(tasks: Any) -> None:
    job = tasks.confirm.enqueue(number=1)
    with pytest.raises(TaskResultDoesNotExist, match="is no task of Django's here"):
        tasks.notify.get_backend().get_result(job.id)
    with pytest.raises(TaskResultDoesNotExist):
        tasks.notify.get_backend().get_result("nobody")


def test_enqueueing_is_told(tasks: Any) -> None:
    heard: list[str] = []
    task_enqueued.connect(receiver := lambda task_result, **_: heard.append(task_result.id))
    result = tasks.notify.enqueue(1)
    task_enqueued.disconnect(receiver)
    assert heard == [result.id]


def test_arguments_are_what_json_can_express(tasks: Any) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        tasks.notify.enqueue(object())
    assert app.jobs.queues() == []


def test_what_it_says_of_itself_is_so(tasks: Any) -> None:
    backend = task_backends["default"]
    assert isinstance(backend, HeadraceBackend)
    assert all(
        (
            backend.supports_async_task,
            backend.supports_defer,
            backend.supports_get_result,
            backend.supports_priority,
        )
    )
    assert list(backend.check()) == []
    assert backend_queues() == {"default", "mail"}
    assert app.tasks["djangoshop.orders.tasks.notify"].retry == Retry(max_attempts=2)


def test_the_app_must_be_installed(tasks: Any) -> None:
    with modify_settings(INSTALLED_APPS={"remove": ["headrace.contrib.django", "django.contrib.admin"]}):
        said = list(task_backends["default"].check())
    assert [message.id for message in said] == ["headrace.E002"]


def test_bad_options_are_named_by_the_checks(tasks: Any) -> None:
    params = {"BACKEND": "headrace.contrib.django.HeadraceBackend", "QUEUES": ["a b"], "OPTIONS": {"RETRIES": 3}}
    with override_settings(TASKS={"default": params}):
        said = [str(message) for message in task_backends["default"].check()]
    assert "'OPTIONS'] has 'RETRIES'" in said[0]
    assert "'a b'" in said[1]
