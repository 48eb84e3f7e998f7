"""What a worker and its child processes tell each other: JSON records behind their length. Data only, nothing pickled.

Neither side makes an object of the other's: an exception travels as what is to be said and done about it (B088).
"""

from __future__ import annotations

import struct

import msgspec

from headrace.core.verdict import Cancel, Fail, Pending, RetryIn, Snooze, Verdict

LENGTH = struct.Struct("!I")
LONGEST = 4 << 20  # bytes of a message to the worker; what is meant to be longer was written by something else


class Job(msgspec.Struct, frozen=True, tag="job", omit_defaults=True):
    """Run this. The task is named by the worker's own code, and the rest are facts for `current_job()`.

    `number` counts the runs of one child. `result`: whether anybody keeps what the handler returns.
    """

    number: int
    module: str
    qualname: str
    task: str
    id: str
    queue: str
    attempt: int
    token: int
    enqueued_us: int
    body: msgspec.Raw
    deadline_us: int | None = None
    once_key: str = ""
    once_fence: int | None = None
    result: bool = False


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End that run: "timeout", "cancel", "shutdown" or "lost"."""

    number: int
    why: str


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The child has imported what it needs, and waits for jobs."""


class Unready(msgspec.Struct, frozen=True, tag="unready"):
    """It cannot run any, and ends."""

    problem: str


class Spent(msgspec.Struct, frozen=True, tag="spent"):
    """An exception came between two steps of a handler, and may have left anything half done: no more jobs."""


class Where(msgspec.Struct, frozen=True, tag="where"):
    """What a run was doing when it was told to stop: its stack as text."""

    number: int
    stack: str


class Line(msgspec.Struct, frozen=True, tag="line", omit_defaults=True):
    """One log record, to be handled by the worker's own handlers."""

    name: str
    level: int
    text: str
    path: str = ""
    line: int = 0
    function: str = ""
    traceback: str = ""


class Returned(msgspec.Struct, frozen=True, tag="returned", omit_defaults=True):
    """The handler has returned. `result` is what a once record keeps, where one does; `problem` says why it cannot.

    `told`: it was interrupted before that, and could know.
    """

    number: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    problem: str = ""
    told: bool = False


class Decided(msgspec.Struct, frozen=True, tag="decided", omit_defaults=True):
    """It has returned or raised a verdict. `told`: as in `Returned`."""

    number: int
    verdict: str
    why: str = ""
    delay_us: int = 0
    told: bool = False


class Misfit(msgspec.Struct, frozen=True, tag="misfit"):
    """Its arguments do not fit the signature that the child sees."""

    number: int
    problem: str


class Raised(msgspec.Struct, frozen=True, tag="raised", omit_defaults=True):
    """It has raised. `rule`: which one of the task's retry policy is for it; `classes`: of the exception, most special
    first, by module and name.
    """

    number: int
    error: str
    message: str
    traceback: str
    retry_after_us: int = 0
    rule: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()


VERDICTS: dict[str, type[Verdict]] = {kind.__name__: kind for kind in (RetryIn, Snooze, Fail, Cancel, Pending)}
Answer = Returned | Decided | Misfit | Raised
ToChild = Job | Stop
ToWorker = Ready | Unready | Spent | Where | Line | Answer


class Settings(msgspec.Struct, frozen=True):
    """What a child is started with."""

    worker_pid: int
    modules: tuple[str, ...]  # to import before it is ready: those of the tasks that run in children
    log_level: int
    set_up: tuple[str, ...] = ()  # functions to call before that, as "django:setup"


_encoder = msgspec.json.Encoder()
settings = msgspec.json.Decoder(Settings)
to_child = msgspec.json.Decoder(ToChild)
to_worker = msgspec.json.Decoder(ToWorker)


def encode(message: msgspec.Struct) -> bytes:
    """The message as JSON."""
    return _encoder.encode(message)


def framed(message: msgspec.Struct) -> bytes:
    """The message as it is sent."""
    body = _encoder.encode(message)
    return LENGTH.pack(len(body)) + body


def length(head: bytes) -> int:
    """How long the message is that follows.

    Raises:
        msgspec.DecodeError: no message of a child is that long.
    """
    size = int(LENGTH.unpack(head)[0])
    if size > LONGEST:
        raise msgspec.DecodeError(f"a message of {size:,} bytes")
    return size
