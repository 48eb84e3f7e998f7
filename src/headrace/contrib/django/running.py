"""How a task of Django's framework runs in a worker of ours: its context, and the framework's signals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Protocol, cast

from django.db import connections

from headrace.context import JobContext, current_job
from headrace.contrib.django.framework import Task, TaskContext, TaskResultStatus, task_finished, task_started
from headrace.contrib.django.results import running
from headrace.core.operations import Outcome
from headrace.core.states import State
from headrace.core.verdict import Verdict
from headrace.middleware import Middleware
from headrace.task import Task as OurTask

logger = logging.getLogger("headrace.worker")


class App(Protocol):
    """What is needed of the app."""

    @property
    def tasks(self) -> Mapping[str, OurTask[..., Any]]:
        """Tasks by name."""
        ...


def runner(task: Task[..., Any], alias: str) -> Callable[..., Any]:
    """What our worker calls: it takes arguments as the framework has them, by position and by name.

    Receivers of signals that raise are logged and change nothing.
    """
    kind = type(task.get_backend())

    def head(result: Any) -> list[Any]:
        return [TaskContext(task_result=result)] if task.takes_context else []

    def run(args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = running(current_job(), task, alias)
        task_started.send_robust(kind, task_result=result)
        value = task.func(*head(result), *args, **kwargs)
        task_finished.send_robust(kind, task_result=_succeeded(result))
        return _verdict(value)

    async def arun(args: list[Any], kwargs: dict[str, Any]) -> Any:
        result = running(current_job(), task, alias)
        await task_started.asend_robust(kind, task_result=result)
        value = await task.func(*head(result), *args, **kwargs)
        await task_finished.asend_robust(kind, task_result=_succeeded(result))
        return _verdict(value)

    function: Any = arun if iscoroutinefunction(task.func) else run
    function.__module__, function.__qualname__ = task.func.__module__, task.func.__qualname__  # for messages
    function.django_task = task  # see task_behind
    return cast("Callable[..., Any]", function)


def task_behind(task: OurTask[..., Any]) -> Task[..., Any] | None:
    """The framework's task that ours runs; None where it is one of our own."""
    return getattr(task.function, "django_task", None)


def _verdict(value: Any) -> Any:
    return value if isinstance(value, Verdict) else None  # what a task returns is not kept


def _succeeded(result: Any) -> Any:
    object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
    return result


class TaskSignals(Middleware):
    """Tells the framework's receivers of tasks that have failed for good; `runner` tells them of the others."""

    def __init__(self, app: App) -> None:
        self._app = app

    def ended(self, job: JobContext | None, outcome: Outcome) -> None:
        """Receivers are plain functions that use the database, so they are called in a thread."""
        if job is None or outcome.state is not State.FAILED:
            return
        ours = self._app.tasks.get(job.task)
        task = None if ours is None else task_behind(ours)
        if task is not None:
            result = running(job, task, task.backend, outcome)
            telling = asyncio.get_running_loop().run_in_executor(None, _tell, type(task.get_backend()), result)
            telling.add_done_callback(_heard)


def _tell(kind: type, result: Any) -> None:
    try:
        task_finished.send_robust(kind, task_result=result)
    finally:
        connections.close_all()  # the thread is not ours, and may end at any time


def _heard(telling: asyncio.Future[None]) -> None:
    if not telling.cancelled() and (error := telling.exception()) is not None:
        logger.error("receivers of task_finished could not be called", exc_info=error)
