"""Crews of worker processes on real stores."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.process.apps.scene import Settings
from tests.process.workers import Crew, crew


@pytest.fixture
def crew_on(tmp_path: Path, unique_name: str) -> Iterator[Callable[..., Crew]]:
    """Make a crew on a store: crew_on(url, lease=..., heartbeat=...)."""
    with ExitStack() as cleanup:

        def make(url: str, *, lease: float = 2.0, heartbeat: float = 0.5, **more: Any) -> Crew:
            settings = Settings(
                url=url, name=unique_name, folder=str(tmp_path), lease=lease, heartbeat=heartbeat, **more
            )
            return cleanup.enter_context(crew(settings))

        yield make


@pytest.fixture(params=["sqlite", "redis", "postgres", "mysql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each store that processes share."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def both(store_url: str, crew_on: Callable[..., Crew]) -> Crew:
    """A crew on each of them."""
    return crew_on(store_url)


@pytest.fixture
def on_sqlite(sqlite_url: str, crew_on: Callable[..., Crew]) -> Crew:
    """A crew on SQLite."""
    return crew_on(sqlite_url)


@pytest.fixture
def on_redis(redis_url: str, crew_on: Callable[..., Crew]) -> Crew:
    """A crew on Redis."""
    return crew_on(redis_url)
