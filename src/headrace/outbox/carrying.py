"""Jobs in a caller's transaction: stored there where that is one of the jobs' database, else as rows of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.core.jobrows import event_of
from headrace.core.operations import Enqueued, NewJob
from headrace.core.outbox import AddEvents
from headrace.core.ports import Driver
from headrace.transactions import Transactions, alend, lend


class Host(Protocol):
    """What is needed of the app."""

    @property
    def driver(self) -> Driver:
        """The store of the jobs."""
        ...

    @property
    def outbox_driver(self) -> Driver:
        """The database with the outbox."""
        ...

    @property
    def has_outbox_elsewhere(self) -> bool:
        """Whether the outbox is in another database than the jobs."""
        ...

    def new_id(self) -> str:
        """A UUID that grows."""
        ...


class Carrier:
    """Takes jobs into transactions. The answers say "new" for rows of the outbox: the relay decides later."""

    def __init__(self, app: Host) -> None:
        self._app = app

    def send(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """Answers, and whether the jobs are pending in an outbox."""
        loan, transactions = lend(transaction), Transactions.on(self._app.driver)
        if not self._app.has_outbox_elsewhere or transactions.reaches(loan):
            return transactions.send(loan, jobs), False
        Transactions.on(self._app.outbox_driver).run(loan, self._rows(jobs))
        return [Enqueued("new", job.id) for job in jobs], True

    async def asend(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """The same, awaited."""
        loan, transactions = alend(transaction), Transactions.on(self._app.driver)
        if not self._app.has_outbox_elsewhere or await transactions.areaches(loan):
            return await transactions.asend(loan, jobs), False
        await Transactions.on(self._app.outbox_driver).arun(loan, self._rows(jobs))
        return [Enqueued("new", job.id) for job in jobs], True

    def _rows(self, jobs: Sequence[NewJob]) -> AddEvents:
        return AddEvents(tuple(event_of(job, self._app.new_id()) for job in jobs))
