"""Shops on each database."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contrib.django.inside import entry
from tests.contrib.django.site import Site, drop_database, own_database


@pytest.fixture
def port() -> int:
    """A free one."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest, unique_name: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """An empty database, as it stands in DATABASES."""
    if kind == "sqlite":
        yield entry(str(tmp_path / "shop.sqlite3"))
        return
    url = request.getfixturevalue(f"{kind}_url")
    made, _ = own_database(url, unique_name)
    yield made
    drop_database(url, unique_name)


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(databases: dict[str, Any], headrace: dict[str, Any] | None = None, **environment: str) -> Site:
        site = Site(tmp_path, databases, headrace or {}, **environment)
        made.append(site)
        return site

    yield make
    for site in made:
        site.stop()


@pytest.fixture
def site(make_site: Callable[..., Site], database: dict[str, Any]) -> Site:
    """A shop without tables yet."""
    return make_site({"default": database})
