"""An app on a store, and a dependency that can be broken: it counts the calls it gets, and how many at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace import Headrace
from tests.cases.conftest import url_of
from tests.circuits.dependency import Dependency
from tests.contract.stores import DATABASES

QUICK = ["memory", "sqlite"]
EVERY = pytest.mark.parametrize("app", ["memory", "sqlite", "redis", *DATABASES], indirect=True)


@pytest.fixture(params=QUICK)
async def app(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[Headrace]:
    """An app without tasks, on the stores that cost little; with `EVERY`, on all."""
    app = Headrace(url_of(request.param, request), name=unique_name, lease=3, busy_timeout=1)
    yield app
    await asyncio.to_thread(app.close)
    await app.aclose()


@pytest.fixture
async def dependency() -> AsyncIterator[Dependency]:
    async with Dependency() as server:
        yield server
