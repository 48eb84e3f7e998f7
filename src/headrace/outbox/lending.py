"""Where an operation of the outbox runs: in the caller's own transaction, or in one of the store's driver."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.core.operations import Operation
from headrace.core.ports import Driver
from headrace.transactions import Transactions, alend, lend

R = TypeVar("R")


def run_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """Run on the caller's connection, and leave the commit to the caller. None: in a transaction of its own.

    Raises:
        ConfigError: it is no transaction of the database with the outbox.
    """
    return driver.run(operation) if session is None else Transactions.on(driver).run(lend(session), operation)


async def arun_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """The same, awaited."""
    if session is None:
        return await driver.arun(operation)
    return await Transactions.on(driver).arun(alend(session), operation)
