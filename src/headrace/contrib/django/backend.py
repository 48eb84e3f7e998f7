"""A backend for Django's tasks framework.

TASKS = {"default": {"BACKEND": "headrace.contrib.django.HeadraceBackend", "QUEUES": ["default", "mail"]}}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.core import checks
from django.utils import timezone

from headrace.contrib.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
)
from headrace.contrib.django.project import DjangoApp, project_app
from headrace.contrib.django.registry import discover
from headrace.contrib.django.results import local, new_result, stored
from headrace.contrib.django.running import TaskSignals, runner, task_behind
from headrace.core.retry import Retry
from headrace.errors import ConfigError, HeadraceError
from headrace.jobinfo import JobInfo
from headrace.options import checked_queue

OPTIONS = ("RETRY", "TIMEOUT", "KEEP")
BACKEND = "django_backend"  # a header: under which alias a job was enqueued


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadraceTask(Task):
    """A task with policies of its own, else those of the backend's OPTIONS: `@task(retry=3, timeout=30, keep="1h")`."""

    retry: Retry | int | None = None  # a policy, or the number of attempts
    timeout: Any = None  # of one run: seconds, a timedelta or a text
    keep: Any = None  # how long a successful result can be looked at


class HeadraceBackend(BaseTaskBackend):
    """Enqueues on the project's app, `headrace.contrib.django.app`. Workers: `manage.py headrace work`.

    A task that is enqueued inside of `transaction.atomic()` on the database that has our tables belongs to the
    transaction. OPTIONS: RETRY (a `Retry`, or the number of attempts), TIMEOUT of one run, KEEP successful results;
    by default 5 attempts, no timeout, and results are gone once the task has succeeded.
    """

    task_class = HeadraceTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> DjangoApp:
        """The project's."""
        return project_app()

    def validate_task(self, task: Task[..., Any]) -> None:
        """Refuse what cannot run, and let our workers know what can.

        Raises:
            InvalidTask: it cannot run here.
        """
        super().validate_task(task)
        known = self.app.tasks.get(task.module_path)
        if known is not None and getattr(task_behind(known), "func", None) is task.func:
            return
        try:
            self._register(task)
        except HeadraceError as error:
            raise InvalidTask(str(error)) from error

    def _register(self, task: Task[..., Any]) -> None:
        app = self.app
        given = {name.lower(): getattr(task, name.lower(), None) for name in OPTIONS}
        policies = {name: self.options.get(name.upper()) if value is None else value for name, value in given.items()}
        app.task(
            name=task.module_path,
            queue=task.queue_name,
            priority=task.priority,
            **{name: value for name, value in policies.items() if value is not None},
        )(runner(task, self.alias))
        if not any(isinstance(layer, TaskSignals) for layer in app.middleware):
            app.middleware.append(TaskSignals(app))

    def enqueue(self, task: Task[..., Any], args: Any, kwargs: Any) -> Any:
        """Enqueue one job; `args` and `kwargs` hold what JSON can express.

        Raises:
            As `headrace.Task.enqueue`; TypeError: JSON cannot express an argument.
        """
        self.validate_task(task)
        args, kwargs = normalize_json(list(args)), normalize_json(dict(kwargs))
        using = self.app.tasks[task.module_path].using(
            queue=task.queue_name,
            priority=task.priority,
            run_after=None if task.run_after is None else _aware(task.run_after),
            headers={BACKEND: self.alias},
        )
        job = using.enqueue(args=args, kwargs=kwargs)
        result = new_result(
            task, job.id, self.alias, args, kwargs, status=TaskResultStatus.READY, enqueued_at=timezone.now()
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """What the store knows of a job. A successful one is gone at once, unless KEEP or `keep` keeps it.

        Raises:
            TaskResultDoesNotExist: there is no such job (any more), its transaction has not been committed, or its
                task is none of Django's that this project has.
        """
        info = self.app.jobs.get(result_id)
        if info is None:
            raise TaskResultDoesNotExist(result_id)
        return stored(info, self._task_of(info), self._alias_of(info))

    def _task_of(self, info: JobInfo) -> Task[..., Any]:
        if info.task not in self.app.tasks:
            discover()
        known = self.app.tasks.get(info.task)
        task = None if known is None else task_behind(known)
        if task is None:
            raise TaskResultDoesNotExist(f"{info.id} is a job of {info.task}, which is no task of Django's here")
        run_after = local(info.due) if info.due > info.enqueued else None
        if self.queues and info.queue not in self.queues:  # it may be one of another backend
            return task
        return task.using(queue_name=info.queue, priority=info.priority, run_after=run_after)

    def _alias_of(self, info: JobInfo) -> str:
        headers = {} if info.envelope is None else info.envelope.headers
        return headers.get(BACKEND) or self.alias

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """What Django says before it runs."""
        yield from super().check(**kwargs)
        if not apps.is_installed("headrace.contrib.django"):
            yield checks.Error(
                f"TASKS[{self.alias!r}] is a backend of headrace's, and its workers and tables are missing.",
                hint='Add "headrace.contrib.django" to INSTALLED_APPS.',
                id="headrace.E002",
            )
        for name in self.options:
            if name not in OPTIONS:
                yield checks.Error(
                    f"TASKS[{self.alias!r}]['OPTIONS'] has {name!r}.",
                    hint=f"Use {', '.join(OPTIONS)}.",
                    id="headrace.E003",
                )
        for queue in self.queues:
            try:
                checked_queue(queue)
            except ConfigError as error:
                yield checks.Error(f"TASKS[{self.alias!r}]['QUEUES']: {error}", id="headrace.E004")


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
