"""Web servers under test: each shell on each store, and one for all tests that need nothing of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contrib.shop import Settings
from tests.http.calling import Caller, start

FACTORY = Callable[[str, str], Caller]


def settings_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Settings:
    """A store of the test's own; the data is beside it, where it is a database."""
    file = f"sqlite:///{folder / 'shop.db'}"
    held, name = str(folder / "held"), f"t{uuid.uuid4().hex[:15]}"
    if kind == "memory":
        return Settings(file, "memory://", None, name, held)
    store = file if kind == "sqlite" else str(request.getfixturevalue(f"{kind}_url"))
    return Settings(file if kind == "redis" else store, store, None, name, held)


@pytest.fixture(
    scope="module", params=[f"{shell}-{kind}" for shell in ("asgi", "wsgi") for kind in ("memory", "sqlite")]
)
def caller(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A server that several tests call, each with keys of its own."""
    shell, kind = request.param.split("-")
    folder = tmp_path_factory.mktemp("http")
    with ExitStack() as cleanup:
        yield start(shell, settings_of(kind, request, folder), folder, cleanup)


@pytest.fixture
def serve(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FACTORY]:
    """Start a server of the test's own, which may be killed."""
    with ExitStack() as cleanup:
        yield lambda shell, kind: start(shell, settings_of(kind, request, tmp_path), tmp_path, cleanup)
