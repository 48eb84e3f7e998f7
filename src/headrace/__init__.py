"""headrace: background jobs that survive crashes, outages, double clicks and deploys."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.public import (
        Cancel,
        ChildError,
        Circuit,
        CircuitInfo,
        CircuitOpen,
        ConfigError,
        EnvelopeError,
        Exponential,
        Fail,
        FailedFilter,
        Failure,
        Fixed,
        Headrace,
        HeadraceError,
        InvalidArguments,
        Job,
        JobContext,
        JobInfo,
        JobInterrupted,
        JobLogFilter,
        LeaseLost,
        Listed,
        Middleware,
        NewerEnvelope,
        Once,
        OnceBusy,
        OnceConflict,
        OnceError,
        OnceFailed,
        PayloadTooLarge,
        Pending,
        PollTask,
        RepairError,
        Retry,
        RetryBudget,
        RetryIn,
        RolledBack,
        Snooze,
        State,
        Stepped,
        StoreError,
        StoreFull,
        StoreMisconfigured,
        StoreUnavailable,
        Task,
        TaskError,
        Unique,
        UnknownTask,
        UnreadableEnvelope,
        WrongColour,
        current_job,
    )

__version__ = "0.1.0"

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


def __getattr__(name: str) -> Any:
    """Load the public names when the first one is used, so that `headrace.cli` starts without what it does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace import public

    globals().update({known: getattr(public, known) for known in __all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
