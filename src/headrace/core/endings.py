"""How a claim came to its end, before anybody has decided what becomes of the job."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.errortext import ErrorText
from headrace.core.verdict import Verdict


class Succeeded(msgspec.Struct, frozen=True):
    """The handler returned `value`."""

    value: Any = None


class DoneBefore(msgspec.Struct, frozen=True):
    """Another job has taken effect under its once key: there is nothing left to do."""


class FailedBefore(msgspec.Struct, frozen=True):
    """Another job has failed under its once key, and its failure is kept: the type of its error, and what it said."""

    error: str
    message: str


class OnceKeyReused(msgspec.Struct, frozen=True):
    """Its once key stands for a call with other arguments."""

    key: str


class OnceKeyHeld(msgspec.Struct, frozen=True):
    """Another job is running under its once key."""


class Raised(msgspec.Struct, frozen=True):
    """The handler raised."""

    error: BaseException
    started_us: int | None = None


class RaisedElsewhere(msgspec.Struct, frozen=True):
    """The handler raised in another process. There is no exception, only what is to be said and done about it (B088).

    `rule`: its place in the retry policy, see `Retry.match`; `classes`: those of the exception, by module and name,
    the most special first.
    """

    text: ErrorText
    started_us: int | None = None
    retry_after_us: int = 0
    rule: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()


class Crashed(msgspec.Struct, frozen=True):
    """It has ended the process that ran it and nothing else: how, as in "killed by SIGSEGV"."""

    how: str
    started_us: int | None = None


class TimedOut(msgspec.Struct, frozen=True):
    """The handler was still running after its timeout."""

    seconds: float
    started_us: int | None = None
    traceback: str = ""


class Decided(msgspec.Struct, frozen=True):
    """The handler returned or raised a verdict."""

    verdict: Verdict
    started_us: int | None = None


class Released(msgspec.Struct, frozen=True):
    """Given back unharmed: due at once in its old place, or after `delay_us`. `started`: its handler had begun."""

    delay_us: int = 0
    started: bool = False
    why: str = "released"


class Parked(msgspec.Struct, frozen=True):
    """Put aside unharmed, for a reason that says what it waits for; see core/parking.py."""

    reason: str


class OverBudget(msgspec.Struct, frozen=True):
    """It would be one retry too many of this window: put off, unharmed."""

    window_us: int


class Newer(msgspec.Struct, frozen=True):
    """The message is of a version that only newer workers read."""

    problem: str


class UnknownTask(msgspec.Struct, frozen=True):
    """This worker knows no such task; after a deploy another one may."""

    task: str


class Unreadable(msgspec.Struct, frozen=True):
    """The body is no envelope."""

    problem: str


class BadArguments(msgspec.Struct, frozen=True):
    """The arguments do not fit the task's signature, or the final answer of a poll ("bad result") that of its hook."""

    problem: str
    reason: str = "bad arguments"


class Expired(msgspec.Struct, frozen=True):
    """It was not started in time; or it is a poll whose time is over."""

    reason: str = "expired"


class DeadlinePassed(msgspec.Struct, frozen=True):
    """No run may start any more."""


class Poisoned(msgspec.Struct, frozen=True):
    """It has killed its worker too often."""


class CancelledByUser(msgspec.Struct, frozen=True):
    """It was running when somebody asked to cancel it."""


Ending = (
    Succeeded
    | DoneBefore
    | FailedBefore
    | OnceKeyReused
    | OnceKeyHeld
    | Raised
    | RaisedElsewhere
    | Crashed
    | TimedOut
    | Decided
    | Released
    | Parked
    | OverBudget
    | UnknownTask
    | Newer
    | Unreadable
    | BadArguments
    | Expired
    | DeadlinePassed
    | Poisoned
    | CancelledByUser
)
SUCCEEDED = Succeeded()
