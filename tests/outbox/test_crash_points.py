"""Every operation of the outbox is cut at every point, on every SQL store: nothing is lost, doubled or out of order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.core import outbox
from headrace.core.operations import Operation
from headrace.errors import StoreUnavailable
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance import Harness
from headrace.testing.conformance.harness import LEASE
from headrace.testing.conformance.outboxing import add, claim, event, numbers, settle, view
from tests.contract.stores import in_colour, open_driver
from tests.contract.test_crash_points import Scissors
from tests.outbox.stores import BOTH_COLOURS

EVENTS = {"a": [1, 2, 3, 7, 8], "b": [4, 5], "c": [6], "p": [9, 10], "h": [11]}


def fill(h: Harness) -> dict[str, int]:
    """Events of several aggregates: waiting, published, parked, held. Answers their numbers in the table."""
    add(h, *(event(n, lane) for lane, of_lane in EVENTS.items() for n in of_lane))
    events = {numbers([each])[0]: each for each in claim(h)}
    seqs = {n: each.seq for n, each in events.items()}
    assert (
        settle(
            h,
            outbox.Delivery(seqs[1], (seqs[1],), seqs[2], counted=False),
            outbox.Delivery(seqs[4], (), seqs[4], counted=False),
            outbox.Delivery(seqs[6], (seqs[6],)),
            outbox.Delivery(seqs[9], (), seqs[9], park=True),
        )
        == [True] * 4
    )
    assert h.run(outbox.Receive("mail", "old", "n-old"))
    return {str(n): seq for n, seq in seqs.items()}


def operations(seqs: dict[str, int]) -> dict[str, Operation[Any]]:
    return {
        "add": outbox.AddEvents((event(20, "a"), event(21, "z"))),
        "claim": outbox.ClaimEvents("r2", LEASE, 100),
        "claim few": outbox.ClaimEvents("r2", LEASE, 2),
        "settle": outbox.SettleEvents("r1", (outbox.Delivery(seqs["11"], (seqs["11"],)),)),
        "settle stuck": outbox.SettleEvents(
            "r1", (outbox.Delivery(seqs["11"], (), seqs["11"], park=True, note="no"), outbox.Delivery(seqs["4"], ()))
        ),
        "view": outbox.ViewOutbox(),
        "parked": outbox.ParkedEvents(),
        "retry": outbox.RetryEvents(),
        "skip": outbox.SkipEvents((event(9).id,)),
        "prune": outbox.PruneEvents(0),
        "receive": outbox.Receive("mail", "new", "n-new"),
        "prune the inbox": outbox.PruneInbox(0),
    }


NAMES = list(operations(dict.fromkeys(map(str, range(1, 12)), 1)))


@pytest.fixture(params=BOTH_COLOURS)
def open_store(request: pytest.FixtureRequest) -> Callable[[], Any]:
    """Opens a fresh store behind scissors, as often as it is called."""
    kind, colour = request.param.split("-")

    @contextmanager
    def opened() -> Iterator[tuple[Harness, Scissors]]:
        clock = VirtualClock()
        driver = open_driver(kind, clock, request)
        scissors = driver.store = Scissors(driver.store)
        with in_colour(driver, colour) as run:
            yield Harness(run, clock), scissors

    return opened


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_anywhere_loses_no_event_and_no_order(name: str, open_store: Callable[[], Any]) -> None:
    points: list[tuple[str, int] | None] = [None]
    checked = 0
    while points:
        point = points.pop()
        with open_store() as (h, scissors):
            operation = operations(fill(h))[name]
            scissors.target, scissors.cut, scissors.steps = operation, point, 0
            try:
                h.run(operation)
            except StoreUnavailable:
                assert scissors.cut is None
            assert scissors.cut is None, "the operation took fewer steps than before"
            if point is None:
                points = [(moment, number) for number in range(scissors.steps) for moment in ("before", "after")]
            scissors.target = None
            h.run(operation)  # repeating it is safe
            check(h, name)
            checked += 1
    assert checked >= 3


def check(h: Harness, name: str) -> None:
    """All that is pending comes out, each aggregate in its order, and what is parked holds up its own."""
    if name == "receive":
        assert not h.run(outbox.Receive("mail", "new", "n-other"))
    assert h.run(outbox.Receive("mail", "old", "n-again")) == (name == "prune the inbox")
    h.clock.advance_us(2 * LEASE)
    got: list[int] = []
    while events := claim(h, owner="r9"):
        lanes: dict[str, list[outbox.StoredEvent]] = {}
        for each in events:
            lanes.setdefault(each.aggregate_id, []).append(each)
        deliveries = [outbox.Delivery(lane[0].seq, tuple(each.seq for each in lane)) for lane in lanes.values()]
        assert all(settle(h, *deliveries, owner="r9"))
        got += numbers(events)
        h.clock.advance_us(2 * LEASE)
    expected = {2, 3, 7, 8, 4, 5, 11}
    if name == "add":
        expected |= {20, 21}
    if name in {"settle", "settle stuck"}:
        expected -= {11}
    if name in {"retry", "skip"}:
        expected |= {9, 10} if name == "retry" else {10}
    assert sorted(got) == sorted(expected)
    for lane in EVENTS.values():
        of_lane = [n for n in got if n in lane]
        assert of_lane == sorted(of_lane)
    assert view(h).parked == {"retry": 0, "skip": 0, "settle stuck": 2}.get(name, 1)


def test_every_operation_of_the_outbox_is_cut() -> None:
    covered = {type(operation) for operation in operations(dict.fromkeys(map(str, range(1, 12)), 1)).values()}
    ours = {kind for kind in Operation.__subclasses__() if kind.__module__ == outbox.__name__}
    assert covered | {outbox.SettleEvents} == ours
