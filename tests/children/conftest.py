"""Each test has a store of its own: what one leaves behind is not run in the next one."""

import pytest

from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore
from tests.children.jobs import app


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh, in memory."""
    monkeypatch.setattr(app, "driver", MemoryDriver(MemoryStore()))
