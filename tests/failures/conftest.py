"""An app on each store, and one in memory or on SQLite where the store is not what is tested."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from tests.cases.conftest import app, works

__all__ = ["app", "works"]


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    """An app with a task that fails for odd numbers, and one with keys."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    made = Headrace(url, version="v7")

    @made.task(name="mail", retry=1)
    def mail(number: int, to: str = "nobody") -> None: ...

    @made.task(name="charge", retry=1, once="charge-{order_id}", unique="charge-{order_id}")
    def charge(order_id: int, amount: float = 1.0) -> None: ...

    yield made
    made.close()
