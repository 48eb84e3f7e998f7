"""Every guarantee of the conformance suite, on every store, in both colours."""

from collections.abc import Iterator

import pytest

from headrace.core import operations as ops
from headrace.testing import conformance
from tests.contract.stores import COLOURS, STORES, open_harness


@pytest.fixture(params=[f"{store}-{colour}" for store in STORES for colour in COLOURS])
def harness(request: pytest.FixtureRequest) -> Iterator[conformance.Harness]:
    store, colour = request.param.split("-")
    with open_harness(store, colour, request) as harness:
        yield harness


@pytest.mark.parametrize("guarantee", conformance.GUARANTEES.values(), ids=conformance.GUARANTEES.keys())
def test_guarantee(guarantee: conformance.Guarantee, harness: conformance.Harness) -> None:
    """Covers, among others, B013 B025 B043 B049 B050 B051 B054 B055 B056 B058 B094 B101 B134 B135."""
    guarantee(harness)
    assert harness.run(ops.Prepare()) is None  # the store still answers


def test_guarantees_are_named_like_promises() -> None:
    """The promise table is made from these names."""
    assert len(conformance.GUARANTEES) > 100
    for name, guarantee in conformance.GUARANTEES.items():
        assert name == guarantee.__name__
        assert len(name.split("_")) >= 3, name
