"""An app on each store, and `app.once` in both colours behind one face."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from headrace import Headrace
from headrace.once import OnceRun
from tests.cases.conftest import url_of
from tests.contract.stores import DATABASES

__all__ = ["Block", "app", "block"]

Inside = Callable[[OnceRun], Any]
Block = Callable[..., Awaitable[OnceRun]]


@pytest.fixture(params=["memory", "sqlite", "redis", *DATABASES])
async def app(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[Headrace]:
    """An app without tasks."""
    app = Headrace(url_of(request.param, request), name=unique_name, busy_timeout=1)
    yield app
    app.close()
    await app.aclose()


@pytest.fixture(params=["sync", "async"])
def block(request: pytest.FixtureRequest, app: Headrace) -> Block:
    """block(key, arguments, inside, **options): one block, whose `inside(run)` may raise or be a coroutine function."""

    def sync(inside: Inside, *args: Any, **options: Any) -> OnceRun:
        with app.once(*args, **options) as run:
            outcome = inside(run)
            if asyncio.iscoroutine(outcome):
                asyncio.run(outcome)
        return run

    async def run(inside: Inside, *args: Any, **options: Any) -> OnceRun:
        if request.param == "sync":
            return await asyncio.to_thread(sync, inside, *args, **options)
        async with app.once(*args, **options) as entered:
            outcome = inside(entered)
            if asyncio.iscoroutine(outcome):
                await outcome
        return entered

    return run
