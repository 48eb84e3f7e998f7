"""A job that its handler ends itself, in a transaction of its own: `current_job().complete(transaction=...)`.

Until that transaction has ended nobody knows whether the job has. So the worker, once the handler has returned, asks
the store; and whoever wants to end the job in another way asks here first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.core.operations import Outcome, Settle
from headrace.core.ports import Driver
from headrace.errors import ConfigError, InvalidArguments, LeaseLost, PayloadTooLarge
from headrace.transactions import Transactions, alend, lend

_lock = threading.Lock()  # one for all: it is held for moments only, and most runs never need it


class Completion:
    """What one run may do about the end of its job. Safe from any thread."""

    __slots__ = ("_begun", "_closed", "_driver", "_outcome", "_worker")

    def __init__(self, driver: Driver, worker: str, outcome: Callable[[Any], Outcome]) -> None:
        """`outcome` of a result is made when it is wanted: most handlers just return."""
        self._driver = driver
        self._worker = worker
        self._outcome: Callable[[Any], Outcome] | None = outcome
        self._closed = False
        self._begun = False

    @property
    def begun(self) -> bool:
        """Whether the job may have ended already."""
        return self._begun

    def close(self) -> bool:
        """The run is over: nothing that it has left behind may complete the job any more. Whether one had `begun`."""
        self._closed = True
        if not self._begun:
            self._outcome = None  # it leads back to this run: without it, no garbage collection is needed for each job
        return self._begun

    def forestall(self) -> bool:
        """Close, unless one has begun. Whether it could be closed."""
        with _lock:
            self._closed = self._closed or not self._begun
            return self._closed

    def complete(self, transaction: Any, result: Any) -> None:
        """End the job as succeeded, with `result`, in the caller's transaction."""
        transactions, loan = self._transactions(), lend(transaction)
        with self._beginning():
            settle = self._settle(result)
            self._check(settle, transactions.run(loan, settle))

    async def acomplete(self, transaction: Any, result: Any) -> None:
        """The same, awaited."""
        transactions, loan = self._transactions(), alend(transaction)
        with self._beginning():
            settle = self._settle(result)
            self._check(settle, await transactions.arun(loan, settle))

    def _transactions(self) -> Transactions:
        transactions = Transactions.on(self._driver)
        if not transactions.in_database:
            raise ConfigError(
                f"the job is in {self._driver.describe()}, which no transaction of your database reaches: let the "
                "handler return to end it, and make it safe to repeat, as with app.inbox(session, current_job().id)"
            )
        return transactions

    def _settle(self, result: Any) -> Settle:
        assert self._outcome is not None
        return Settle(self._worker, (self._outcome(result),))

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """From before the first statement on, the job may have ended, whatever becomes of this call."""
        with _lock:
            before, self._begun = self._begun, True  # first, so that whoever closes at this moment sees it
            if self._closed:
                self._begun = before
                raise LeaseLost("the run of this job is over, and its end has been decided: roll back")
        try:
            yield
        except (ConfigError, LeaseLost, InvalidArguments, PayloadTooLarge):  # nothing was changed
            self._begun = before
            raise

    def _check(self, settle: Settle, answers: list[bool]) -> None:
        if not answers[0]:
            raise LeaseLost(
                f"job {settle.outcomes[0].id} is not held any more: its lease was over and another has it, or it "
                "has been ended already: roll back"
            )
