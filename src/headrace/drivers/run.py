"""The two loops that run a plan: all a synchronous and an asynchronous caller do not share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from headrace.stores.plan import Plan, Step

R = TypeVar("R")


def run(plan: Plan[R], execute: Callable[[Step], Any]) -> R:
    """Run `plan`, giving each step to `execute`; an error is first shown to the plan."""
    try:
        step = next(plan)
        while True:
            try:
                answer = execute(step)
            except Exception as error:  # noqa: BLE001 - the plan decides; unhandled, it comes straight back out
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as stop:
        return cast("R", stop.value)


async def arun(plan: Plan[R], execute: Callable[[Step], Awaitable[Any]]) -> R:
    """The same for an asynchronous `execute`."""
    try:
        step = next(plan)
        while True:
            try:
                answer = await execute(step)
            except Exception as error:  # noqa: BLE001 - the plan decides; unhandled, it comes straight back out
                step = plan.throw(error)
            else:
                step = plan.send(answer)
    except StopIteration as stop:
        return cast("R", stop.value)
