"""What SQL stores promise about completed jobs, each in both colours."""

from collections.abc import Iterator

import pytest

from headrace.testing import conformance
from headrace.testing.conformance.completing import COMPLETION_GUARANTEES
from tests.outbox.stores import BOTH_COLOURS, harness_of


@pytest.fixture(params=BOTH_COLOURS)
def harness(request: pytest.FixtureRequest) -> Iterator[conformance.Harness]:
    with harness_of(request.param, request) as harness:
        yield harness


@pytest.mark.parametrize("promise", COMPLETION_GUARANTEES.values(), ids=COMPLETION_GUARANTEES.keys())
def test_promise(promise: conformance.Guarantee, harness: conformance.Harness) -> None:
    promise(harness)
    assert harness.tick_us == 1


def test_the_stores_are_tested() -> None:
    assert len(BOTH_COLOURS) >= 2
    assert len(COMPLETION_GUARANTEES) > 5
