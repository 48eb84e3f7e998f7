"""headrace: background jobs that survive crashes, outages, double clicks and deploys."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.context import JobContext, current_job
    from headrace.core.backoff import Exponential, Fixed, Listed, Stepped
    from headrace.core.retry import Retry
    from headrace.core.states import State
    from headrace.core.unique import Unique
    from headrace.core.verdict import Cancel, Fail, RetryIn, Snooze
    from headrace.errors import (
        ConfigError,
        EnvelopeError,
        HeadraceError,
        InvalidArguments,
        LeaseLost,
        PayloadTooLarge,
        StoreError,
        StoreFull,
        StoreMisconfigured,
        StoreUnavailable,
        TaskError,
        UnknownTask,
        UnreadableEnvelope,
        WrongColour,
    )
    from headrace.jobinfo import JobInfo
    from headrace.middleware import Middleware
    from headrace.task import Job, Task

__version__ = "0.1.0"

__all__ = [
    "Cancel",
    "ConfigError",
    "EnvelopeError",
    "Exponential",
    "Fail",
    "Fixed",
    "Headrace",
    "HeadraceError",
    "InvalidArguments",
    "Job",
    "JobContext",
    "JobInfo",
    "LeaseLost",
    "Listed",
    "Middleware",
    "PayloadTooLarge",
    "Retry",
    "RetryIn",
    "Snooze",
    "State",
    "Stepped",
    "StoreError",
    "StoreFull",
    "StoreMisconfigured",
    "StoreUnavailable",
    "Task",
    "TaskError",
    "Unique",
    "UnknownTask",
    "UnreadableEnvelope",
    "WrongColour",
    "current_job",
]

_MODULES = {
    "app": ("Headrace",),
    "context": ("JobContext", "current_job"),
    "core.backoff": ("Exponential", "Fixed", "Listed", "Stepped"),
    "core.retry": ("Retry",),
    "core.states": ("State",),
    "core.unique": ("Unique",),
    "core.verdict": ("Cancel", "Fail", "RetryIn", "Snooze"),
    "jobinfo": ("JobInfo",),
    "middleware": ("Middleware",),
    "task": ("Job", "Task"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import headrace` costs what is used of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"headrace.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
