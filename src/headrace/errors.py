"""Every error headrace raises.

    HeadraceError
    +-- ConfigError            the settings contradict each other or name something that is not there
    +-- TaskError              a task's definition or call is wrong
    |   +-- InvalidArguments       the arguments do not fit the task's signature
    |   +-- UnknownTask            no task of that name is registered
    |   +-- WrongColour            a blocking call inside a running event loop, or the other way round
    +-- CircuitOpen            a call is not to be made now: try again after `retry_after` seconds
    +-- ChildError             a handler has raised in a child process, or that process has died
    +-- LeaseLost              a job is not this worker's any more, so that its handler may end nothing
    +-- OnceError              nothing was executed under a once key
    |   +-- OnceBusy               somebody else is at it: try again after `retry_after` seconds
    |   +-- OnceConflict           the key stands for another call
    |   +-- OnceFailed             an earlier run has failed for good, and its failure is kept
    +-- RepairError            a failed job, or a replay, is not as it was thought to be: look at it again
    +-- RolledBack             a handler has returned, but not committed the transaction in which it completed its job
    +-- EnvelopeError          a message cannot be made or read
    |   +-- PayloadTooLarge        more than 1 MB, or nested deeper than 64 levels
    |   +-- UnreadableEnvelope     not JSON, or not an envelope
    |       +-- NewerEnvelope          of a newer version: a newer worker can read it
    +-- StoreError             the store refused or could not be reached
    |   +-- StoreUnavailable       no answer: whether the operation took place is unknown; repeating it is safe
    |   +-- StoreMisconfigured     its settings would lose jobs; the message names the fix
    |   +-- StoreFull              the store has no room; nothing was enqueued
    +-- WebhookError           a webhook cannot be sent, or not be believed
    |   +-- AddressRefused         its address must not be reached from here
    |   +-- SignatureInvalid       a received request is not of whom it should be, or too old

`JobInterrupted` is none of them: it derives from BaseException, so that `except Exception` does not catch it.

A docstring is the default message: it says who is at fault and what to do.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Something went wrong in headrace."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class ConfigError(HeadraceError):
    """The settings contradict each other: change the one that is named."""


class TaskError(HeadraceError):
    """The task's definition or its call is wrong: change the code that defines or calls it."""


class InvalidArguments(TaskError):
    """The arguments do not fit the task's signature: change the call, or the task's annotations."""


class UnknownTask(TaskError):
    """No task of that name is registered: import the module that defines it, or give the task an alias."""


class WrongColour(TaskError):
    """A blocking call was made inside a running event loop: await the `a...` twin of the method instead."""


class RepairError(HeadraceError):
    """A failed job, or a replay of some, is not as it was thought to be: look at it again."""


class CircuitOpen(HeadraceError):
    """The circuit around this dependency lets no call in now: try again later."""

    def __init__(self, message: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds


class ChildError(HeadraceError):
    """A handler has raised in a child process, or that process has died: what `Middleware.around` sees of it."""

    def __init__(self, error_type: str = "", message: str = "", traceback: str = "") -> None:
        super().__init__(": ".join(filter(None, (error_type, message))))
        self.type = error_type  # of the exception there; "ChildLost": the process has died
        self.message = message
        self.traceback = traceback


class JobInterrupted(BaseException):
    """Raised in a plain function that runs in a child process and has to end now; async functions are cancelled.

    `why` is "timeout", "cancel", "shutdown" or "lost". Clean up and let it pass: the process is killed soon after.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__(why)
        self.why = why


class LeaseLost(HeadraceError):
    """The job is not this worker's any more: another run of it counts, so roll back what this one has done."""


class OnceError(HeadraceError):
    """Nothing was executed under this once key."""


class OnceBusy(OnceError):
    """Somebody else is at it under this once key: try again later."""

    def __init__(self, message: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after  # seconds


class OnceConflict(OnceError):
    """This once key stands for another call: make the key of all that tells calls apart."""


class OnceFailed(OnceError):
    """An earlier run under this once key has failed, and its failure is kept: use another key to try again."""


class RolledBack(HeadraceError):
    """The handler has returned, but not committed the transaction that completed its job: commit before you return."""


class EnvelopeError(HeadraceError):
    """The message cannot be made or read."""


class PayloadTooLarge(EnvelopeError):
    """The arguments are too large or too deep: store them elsewhere and pass an id."""


class UnreadableEnvelope(EnvelopeError):
    """The stored message is no envelope: something else wrote it."""


class NewerEnvelope(UnreadableEnvelope):
    """The stored message is of a newer version: update this worker, or leave the job to one that is up to date."""


class StoreError(HeadraceError):
    """The store refused the operation."""


class StoreUnavailable(StoreError):
    """The store gave no answer; whether the operation took place is unknown, and repeating it is safe."""


class StoreMisconfigured(StoreError):
    """The store's settings would lose jobs: change them as the message says."""


class StoreFull(StoreError):
    """The store has no room left; nothing was enqueued: give it room, or let workers drain it."""


class WebhookError(HeadraceError):
    """The webhook cannot be sent, or not be believed."""


class AddressRefused(WebhookError):
    """The webhook's address must not be reached from here: give another, or name it in allow=."""


class SignatureInvalid(WebhookError):
    """The request is not of whom it should be: no signature fits its body, its id and its timestamp."""
