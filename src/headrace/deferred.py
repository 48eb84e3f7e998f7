"""Jobs that wait in memory for the commit of a caller's transaction: `using(transaction=..., after_commit=True)`.

Nothing is written before, so nothing waits for anything. A process that dies between the commit and the enqueue takes
them with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from headrace.core.operations import Enqueued, NewJob
from headrace.core.wording import counted
from headrace.drivers.borrowed import Loan, attend
from headrace.errors import ConfigError
from headrace.transactions import refuse_awaited, refuse_blocking

logger = logging.getLogger("headrace")

MOST = 1_000  # jobs of one enqueue
NAMED = 10  # ids in a line of the log


class App(Protocol):
    """What is needed of the app."""

    def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        ...

    def asend(self, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Enqueued]]:
        """The same, awaited."""
        ...


def defer(app: App, transaction: Any, jobs: Sequence[NewJob]) -> None:
    """Enqueue `jobs` once the transaction that a synchronous caller is in has been committed.

    Raises:
        ConfigError: nobody would tell of its commit.
        WrongColour: it must be awaited.
    """
    _enter(refuse_awaited(attend(transaction)), Deferred(app, jobs, app.send))


def adefer(app: App, transaction: Any, jobs: Sequence[NewJob]) -> None:
    """The same for a coroutine's transaction, whose commit awaits the enqueue."""
    loan = refuse_blocking(attend(transaction))
    _enter(loan, Deferred(app, jobs, lambda some: loan.wait(app.asend(some))))


def _enter(loan: Loan, deferred: Deferred) -> None:
    if not loan.on_commit(deferred):
        raise ConfigError(
            f"nobody tells when this {loan.name} commits: hand over a Session or AsyncSession of SQLAlchemy, or an "
            "alias of Django, or leave after_commit away, so that the job is stored in the transaction itself"
        )


class Deferred:
    """Jobs of one app, in order. Called after the commit."""

    def __init__(self, app: App, jobs: Sequence[NewJob], send: Callable[[Sequence[NewJob]], object]) -> None:
        self.app = app
        self.jobs = list(jobs)
        self._send = send

    def absorb(self, later: object) -> bool:
        """Take over the jobs of a later one of the same app, which are sent with these."""
        if not isinstance(later, Deferred) or later.app is not self.app:
            return False
        self.jobs += later.jobs
        return True

    def __call__(self) -> None:
        """Enqueue them, 1,000 at a time.

        Raises:
            StoreError: some could not be stored, which is logged with their ids too: the commit stands.
        """
        sent = 0
        try:
            for start in range(0, len(self.jobs), MOST):
                self._send(self.jobs[start : start + MOST])
                sent = start + MOST
        except BaseException as error:
            left = self.jobs[sent:]
            named = ", ".join(f"{job.task} {job.id}" for job in left[:NAMED]) + (", ..." if len(left) > NAMED else "")
            jobs = counted(len(left), "job")
            said = (
                f"the transaction has been committed, but it is not known whether {jobs} for after it could be enqueued"
            )
            logger.error("%s: %s", said, named)  # noqa: TRY400 - the error is raised, and tells the rest
            error.add_note(f"{said[0].upper()}{said[1:]}: {named}")
            raise
