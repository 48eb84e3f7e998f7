"""Everything that `from headrace import ...` offers. `headrace` itself loads it when the first name is used."""

from headrace.app import Headrace
from headrace.calls import Job
from headrace.circuits import Circuit
from headrace.circuits.looks import CircuitInfo
from headrace.context import JobContext, current_job
from headrace.core.backoff import Exponential, Fixed, Listed, Stepped
from headrace.core.budget import RetryBudget
from headrace.core.failures import FailedFilter, Failure
from headrace.core.once import Once
from headrace.core.retry import Retry
from headrace.core.states import State
from headrace.core.unique import Unique
from headrace.core.verdict import Cancel, Fail, Pending, RetryIn, Snooze
from headrace.errors import (
    ChildError,
    CircuitOpen,
    ConfigError,
    EnvelopeError,
    HeadraceError,
    InvalidArguments,
    JobInterrupted,
    LeaseLost,
    NewerEnvelope,
    OnceBusy,
    OnceConflict,
    OnceError,
    OnceFailed,
    PayloadTooLarge,
    RepairError,
    RolledBack,
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
from headrace.joblog import JobLogFilter
from headrace.middleware import Middleware
from headrace.polling import PollTask
from headrace.task import Task

__all__ = [
    "Cancel",
    "ChildError",
    "Circuit",
    "CircuitInfo",
    "CircuitOpen",
    "ConfigError",
    "EnvelopeError",
    "Exponential",
    "Fail",
    "FailedFilter",
    "Failure",
    "Fixed",
    "Headrace",
    "HeadraceError",
    "InvalidArguments",
    "Job",
    "JobContext",
    "JobInfo",
    "JobInterrupted",
    "JobLogFilter",
    "LeaseLost",
    "Listed",
    "Middleware",
    "NewerEnvelope",
    "Once",
    "OnceBusy",
    "OnceConflict",
    "OnceError",
    "OnceFailed",
    "PayloadTooLarge",
    "Pending",
    "PollTask",
    "RepairError",
    "Retry",
    "RetryBudget",
    "RetryIn",
    "RolledBack",
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
