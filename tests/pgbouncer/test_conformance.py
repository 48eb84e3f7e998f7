"""B128: every guarantee of the conformance suite through PgBouncer in transaction mode, in both colours."""

from collections.abc import Iterator

import pytest

from headrace.testing import conformance
from headrace.testing.conformance.outboxing import OUTBOX_GUARANTEES
from tests.contract.stores import COLOURS, POOLED, open_harness

GUARANTEES = conformance.GUARANTEES | OUTBOX_GUARANTEES


@pytest.fixture(params=COLOURS)
def harness(request: pytest.FixtureRequest) -> Iterator[conformance.Harness]:
    with open_harness(POOLED, request.param, request) as harness:
        yield harness


@pytest.mark.parametrize("guarantee", GUARANTEES.values(), ids=GUARANTEES.keys())
def test_guarantee(guarantee: conformance.Guarantee, harness: conformance.Harness) -> None:
    guarantee(harness)
