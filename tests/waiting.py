"""Wait for something to become true. The only place in the tests that may sleep."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05


def wait_until(predicate: Callable[[], T], timeout: float = 10, what: str = "the condition") -> T:
    """Return the first true value of `predicate`, or raise AssertionError after `timeout` seconds."""
    give_up, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not (value := predicate()):
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return value


@overload
async def await_until(
    predicate: Callable[[], Coroutine[Any, Any, T]], timeout: float = 10, what: str = "the condition"
) -> T: ...


@overload
async def await_until(predicate: Callable[[], T], timeout: float = 10, what: str = "the condition") -> T: ...


async def await_until(predicate: Callable[[], Any], timeout: float = 10, what: str = "the condition") -> Any:
    """The same in a coroutine; `predicate` may be a plain or an async function."""
    give_up, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not (value := await _value(predicate)):
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return value


async def _value(predicate: Callable[[], Any]) -> Any:
    value = predicate()
    return await value if inspect.isawaitable(value) else value
