"""Jobs as results of Django's tasks framework."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from headrace.context import JobContext
from headrace.contrib.django.framework import Task, TaskError, TaskResult, TaskResultStatus
from headrace.core import trail
from headrace.core.moments import aware
from headrace.core.operations import Outcome
from headrace.core.states import State
from headrace.core.trail import Mishap
from headrace.jobinfo import JobInfo

_STATUS = {
    State.SCHEDULED: TaskResultStatus.READY,
    State.READY: TaskResultStatus.READY,
    State.PARKED: TaskResultStatus.READY,
    State.RUNNING: TaskResultStatus.RUNNING,
    State.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
}  # what else there is has ended without success
_UNKNOWN = "headrace.errors.HeadraceError"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadraceResult(TaskResult):
    """A result whose value is not known: headrace does not keep what a task returns."""

    @property
    def return_value(self) -> Any:
        """Not None, which would be a value.

        Raises:
            ValueError: always; it says what is the matter.
        """
        if self.status == TaskResultStatus.SUCCESSFUL:
            raise ValueError("headrace does not keep what a task returns: have the task store it")
        raise ValueError("Task failed" if self.is_finished else "Task has not finished yet")


def new_result(task: Task[..., Any], id: str, alias: str, args: list[Any], kwargs: dict[str, Any], **known: Any) -> Any:
    """A result with what is known of it: `status` and the like."""
    fields: dict[str, Any] = {
        "status": TaskResultStatus.READY,
        "enqueued_at": None,
        "started_at": None,
        "finished_at": None,
        "last_attempted_at": None,
        "errors": [],
        "worker_ids": [],
    }
    return HeadraceResult(task=task, id=id, backend=alias, args=args, kwargs=kwargs, **(fields | known))


def stored(info: JobInfo, task: Task[..., Any], alias: str) -> Any:
    """The result of a job as the store has it."""
    args = info.args if isinstance(info.args, dict) else {}
    going = info.state in {State.RUNNING, State.SUCCEEDED}
    attempts = info.counts["attempts"] + going
    starts = [_moment(each.started_us) for each in info.history if each.started_us]
    if info.started is not None:
        starts.append(local(info.started))
    return new_result(
        task,
        info.id,
        alias,
        list(args.get("args", [])),
        dict(args.get("kwargs", {})),
        status=_STATUS.get(info.state, TaskResultStatus.FAILED),
        enqueued_at=local(info.enqueued),
        started_at=starts[0] if starts else None,
        last_attempted_at=starts[-1] if starts else None,
        finished_at=None if info.finished is None else local(info.finished),
        errors=errors(info.history),
        worker_ids=_workers(info.history, attempts, info.worker if going else None),
    )


def running(job: JobContext, task: Task[..., Any], alias: str, outcome: Outcome | None = None) -> Any:
    """The result of the job that runs here; with its outcome, of one that has just failed."""
    history = () if outcome is None else trail.decode(outcome.trail).history
    return new_result(
        task,
        job.id,
        alias,
        list(job.arguments.get("args", [])),
        dict(job.arguments.get("kwargs", {})),
        status=TaskResultStatus.RUNNING if outcome is None else TaskResultStatus.FAILED,
        enqueued_at=local(job.enqueued),
        started_at=timezone.now(),
        last_attempted_at=timezone.now(),
        finished_at=None if outcome is None else timezone.now(),
        errors=errors(history),
        worker_ids=_workers(history, job.attempt, None),
    )


def errors(history: Iterable[Mishap]) -> list[TaskError]:
    """What went wrong, oldest first, at most the last 10."""
    return [TaskError(exception_class_path=_class_path(each), traceback=each.traceback) for each in history]


def local(moment: datetime) -> datetime:
    """As Django writes moments in this project."""
    return moment if settings.USE_TZ else timezone.make_naive(moment)


def _moment(unix_us: int | None) -> datetime | None:
    return None if unix_us is None else local(aware(unix_us))


def _workers(history: Iterable[Mishap], attempts: int, current: str | None) -> list[str]:
    """One for each attempt, for Django counts them; of those that are long ago, no name is known."""
    names = [each.worker for each in history]
    if current is not None:
        names.append(current)
    return [*[""] * (attempts - len(names)), *names[max(0, len(names) - attempts) :]]


def _class_path(mishap: Mishap) -> str:
    """Where the exception's class is, or the nearest of its bases that stands in a module by itself.

    Django imports it when it is asked for, so nothing is named that is not loaded already.
    """
    found = re.findall(rf"^((?:[\w.]+\.)?{re.escape(mishap.type)})(?=:|$)", mishap.traceback, re.MULTILINE)
    known = _loaded(found[-1] if found else mishap.type)
    for base in known.__mro__ if known is not None else ():
        if issubclass(base, BaseException) and getattr(sys.modules.get(base.__module__), base.__name__, None) is base:
            return f"{base.__module__}.{base.__name__}"
    return _UNKNOWN


def _loaded(path: str) -> type[BaseException] | None:
    """The class that a traceback names, in a module that is loaded."""
    parts = path.split(".")
    for place in range(len(parts) - 1, -1, -1):
        module = ".".join(parts[:place]) or "builtins"
        if module in sys.modules:
            found: Any = sys.modules[module]
            for name in parts[place:]:
                found = getattr(found, name, None)
            if isinstance(found, type) and issubclass(found, BaseException):
                return found
    return None
