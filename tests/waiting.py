"""Wait for something to become true. The only place in the tests that may sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

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


async def await_until(predicate: Callable[[], T | Awaitable[T]], timeout: float = 10, what: str = "the condition") -> T:
    """The same in a coroutine; `predicate` may be a plain or an async function."""
    give_up, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while not (value := await _value(predicate)):
        if time.monotonic() > give_up:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return value


async def _value(predicate: Callable[[], T | Awaitable[T]]) -> T:
    value = predicate()
    return await value if inspect.isawaitable(value) else value
