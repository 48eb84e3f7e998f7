"""The SQL stores, each fresh and on a virtual clock, in one colour."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from headrace.testing.conformance import Harness
from tests.contract.stores import COLOURS, STORES, open_harness

SQL_STORES = tuple(
    store
    for store in ("sqlite", "postgres", "mysql")
    if store in STORES and find_spec(f"headrace.stores.{store}.outbox")
)
BOTH_COLOURS = [f"{store}-{colour}" for store in SQL_STORES for colour in COLOURS]


@contextmanager
def harness_of(param: str, request: pytest.FixtureRequest) -> Iterator[Harness]:
    """A harness for a parameter such as "sqlite-async"."""
    store, colour = param.split("-")
    with open_harness(store, colour, request) as harness:
        yield harness
