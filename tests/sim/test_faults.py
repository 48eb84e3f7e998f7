"""What a faulty network does to a call, and what it does not."""

from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, TypeVar

import pytest

from headrace.core import operations as ops
from headrace.drivers.memory import MemoryDriver
from headrace.errors import StoreUnavailable
from headrace.stores.memory import MemoryStore
from headrace.testing.faults import FaultRates, FaultyDriver, Network
from headrace.testing.loop import VirtualLoop
from tests.sim.test_loop import pass_time

T = TypeVar("T")


class Bench:
    """One driver behind one network."""

    def __init__(self, rates: FaultRates, **options: Any) -> None:
        self.loop = VirtualLoop()
        self.inner = MemoryDriver(MemoryStore(now=self.loop.clock))
        self.took_place: list[str] = []
        network = Network(
            self.loop, Random("bench"), rates, watch=lambda who, what, answer: self.took_place.append(who), **options
        )
        self.driver = FaultyDriver(self.inner, network, "me")

    def enqueue(self) -> list[ops.Enqueued]:
        return self.await_(self.driver.arun(ops.Enqueue((ops.NewJob("a", "q", "t", b""),))))

    def await_(self, wait: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(wait)

    @property
    def stored(self) -> bool:
        return self.inner.run(ops.Get("a")) is not None


@pytest.fixture
def benches() -> Iterator[list[Bench]]:
    made: list[Bench] = []
    yield made
    for bench in made:
        bench.loop.close()


def test_a_good_network_only_takes_its_time(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(delay_s=1.0)))
    assert bench.enqueue() == [ops.Enqueued("new", "a")]
    assert 0 < bench.loop.time() < 2


@pytest.mark.parametrize(
    ("rates", "at_once", "later"),
    [
        (FaultRates(drop=1), False, False),
        (FaultRates(lose=1), True, True),
        (FaultRates(late=1), False, True),
    ],
    ids=["drop", "lose", "late"],
)
def test_an_error_says_nothing_about_what_took_place(
    benches: list[Bench], rates: FaultRates, *, at_once: bool, later: bool
) -> None:
    benches.append(bench := Bench(rates))
    with pytest.raises(StoreUnavailable):
        bench.enqueue()
    assert bench.stored is at_once
    bench.await_(pass_time(10))
    assert bench.stored is later
    assert len(bench.took_place) == later


def test_a_call_that_is_sent_twice_takes_place_twice(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(twice=1)))
    assert bench.enqueue() == [ops.Enqueued("exists", "a")]
    assert bench.took_place == ["me", "me"]


def test_a_stalled_call_comes_through_in_the_end(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(stall=1, stall_s=100)))
    assert bench.enqueue() == [ops.Enqueued("new", "a")]
    assert bench.loop.time() > 5


def test_an_outage_begins_and_ends(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(), outages=[(0.0, 30.0)]))
    with pytest.raises(StoreUnavailable):
        bench.enqueue()
    with pytest.raises(StoreUnavailable):
        bench.driver.run(ops.Queues())
    assert not bench.stored
    bench.await_(pass_time(30))
    assert bench.enqueue() == [ops.Enqueued("new", "a")]


def test_faults_stop_when_they_are_told_to(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(drop=1), outages=[(0.0, 1_000.0)], until_s=10))
    with pytest.raises(StoreUnavailable):
        bench.enqueue()
    bench.await_(pass_time(10))
    assert bench.enqueue() == [ops.Enqueued("new", "a")]


def test_a_synchronous_call_is_delayed_by_nothing(benches: list[Bench]) -> None:
    benches.append(bench := Bench(FaultRates(lose=1)))
    with pytest.raises(StoreUnavailable):
        bench.driver.run(ops.Enqueue((ops.NewJob("a", "q", "t", b""),)))
    assert bench.stored
    assert bench.loop.time() == 0


def test_hints_ring_those_who_wait_and_may_be_lost(benches: list[Bench]) -> None:
    benches += [sound := Bench(FaultRates()), lossy := Bench(FaultRates(lost_hint=1))]
    for bench, rung in ((sound, True), (lossy, False)):
        hint = bench.driver.wakeup("w", ("q",))
        bench.enqueue()
        assert bench.await_(hint.wait(1)) is rung
        bench.await_(hint.aclose())
        bench.await_(hint.aclose())
