"""Where an operation of the outbox runs: in the caller's own transaction, or in one of the store's driver."""

from __future__ import annotations

from typing import Any, TypeVar

from headrace.core.operations import Operation
from headrace.core.ports import Driver
from headrace.errors import ConfigError

R = TypeVar("R")


def run_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """Run on the caller's connection, and leave the commit to the caller. None: in a transaction of its own."""
    if session is None:
        return driver.run(operation)
    raise _unfit(session)


async def arun_in(session: Any, driver: Driver, operation: Operation[R]) -> R:
    """The same, awaited."""
    if session is None:
        return await driver.arun(operation)
    raise _unfit(session)


def _unfit(session: Any) -> ConfigError:
    return ConfigError(f"{type(session).__name__} is no connection that can be lent: give None")
