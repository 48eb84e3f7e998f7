"""Apps whose outbox is a fresh SQL store."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from headrace import Headrace


@pytest.fixture
def make_app(sqlite_url: str) -> Iterator[Callable[..., Headrace]]:
    """Apps on one SQLite file, closed at the end."""
    with ExitStack() as cleanup:

        def make(url: str = sqlite_url, **options: Any) -> Headrace:
            return cleanup.enter_context(Headrace(url, **options))

        yield make


@pytest.fixture
def app(make_app: Callable[..., Headrace]) -> Headrace:
    return make_app()
