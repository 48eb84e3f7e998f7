"""Every guarantee about the outbox and the inbox, on every SQL store, in both colours."""

from collections.abc import Iterator

import pytest

from headrace.core import outbox
from headrace.testing import conformance
from headrace.testing.conformance.outboxing import OUTBOX_GUARANTEES
from tests.outbox.stores import BOTH_COLOURS, harness_of


@pytest.fixture(params=BOTH_COLOURS)
def harness(request: pytest.FixtureRequest) -> Iterator[conformance.Harness]:
    with harness_of(request.param, request) as harness:
        yield harness


@pytest.mark.parametrize("promise", OUTBOX_GUARANTEES.values(), ids=OUTBOX_GUARANTEES.keys())
def test_promise(promise: conformance.Guarantee, harness: conformance.Harness) -> None:
    """Covers, among others, B160."""
    promise(harness)
    assert harness.run(outbox.ViewOutbox()).now_us > 0


def test_the_stores_are_tested() -> None:
    assert len(BOTH_COLOURS) >= 2
    assert len(OUTBOX_GUARANTEES) > 15
