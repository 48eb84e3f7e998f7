"""An app on each store, and workers that are processes."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from tests.cases.running import Works
from tests.contract.stores import DATABASES

StartWorks = Callable[[str], Works]


def url_of(kind: str, request: pytest.FixtureRequest) -> str:
    """A fresh store; servers are shared, so the app's name keeps tests apart."""
    if kind in {"redis", *DATABASES}:
        url: str = request.getfixturevalue(f"{kind}_url")
        return url
    if kind == "sqlite":
        return f"sqlite:///{request.getfixturevalue('quick_directory')}/jobs.db"
    return "memory://"


@pytest.fixture(params=["memory", "sqlite", "redis", *DATABASES])
async def app(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[Headrace]:
    """An app without tasks, with short leases."""
    app = Headrace(url_of(request.param, request), name=unique_name, lease=3, busy_timeout=1)
    yield app
    await app.aclose()


@pytest.fixture(params=["sqlite", "redis", *DATABASES])
def works(
    request: pytest.FixtureRequest, tmp_path: Path, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StartWorks]:
    """works(source of the tasks): an app whose workers may be killed."""
    for name in ("JOBS_URL", "JOBS_NAME", "JOBS_SAID"):
        monkeypatch.setenv(name, "")  # so that they are as before at the end
    url, made = url_of(request.param, request), []

    def make(tasks: str) -> Works:
        made.append(Works(tmp_path, url, unique_name, tasks))
        return made[-1]

    yield make
    for each in made:
        each.close()
