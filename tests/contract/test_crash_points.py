"""Every operation on every store is cut at every point: before each step, after it, and after all with the reply lost.

A cut raises StoreUnavailable into the plan where the driver would: what a transaction had done is rolled back, what a
script had done stays. Then nothing may be lost or doubled, and repeating the operation must lead where it should have.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec
import pytest

from headrace.core import once_records, parking, registers, trail
from headrace.core import operations as ops
from headrace.core.states import LIVE
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Plan
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance import Harness
from headrace.testing.conformance.harness import job
from tests.contract import circuits
from tests.contract.records import LOOKS, TOGETHER
from tests.contract.stores import COLOURS, STORES, in_colour, open_driver
from tests.contract.views import check_whole, everything, records
from tests.contract.world import IDS, KEYS, QUEUES, World, operations

Seen = dict[str, Any]
Point = tuple[str, int] | None  # before or after a step; None: the operation was carried out, and its reply is lost


def reference() -> World:
    """The world in the memory model."""
    from headrace.drivers.memory import MemoryDriver
    from headrace.stores.memory import MemoryStore

    clock = VirtualClock()
    return World(Harness(MemoryDriver(MemoryStore(now=clock)).run, clock))


@cache
def before_and_after(name: str) -> tuple[Seen, Seen]:
    """What can be seen of the memory model's world, and what after one operation."""
    world = reference()
    before = see(world.harness)
    world.harness.run(dict(operations(world))[name])
    return before, see(world.harness)


class Scissors:
    """Stands before a store and cuts the plan of one operation at one point, once."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.target: object = None
        self.cut: tuple[str, int] | None = None
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def plan(self, operation: Any) -> Plan[Any]:
        """The store's plan, counted, or with one wire cut."""
        plan = self._store.plan(operation)
        return self._cut(plan) if operation is self.target else plan

    def _cut(self, plan: Plan[Any]) -> Plan[Any]:
        try:
            step = next(plan)
            while True:
                number, self.steps = self.steps, self.steps + 1
                try:
                    self._snip("before", number)
                    answer = yield step
                    self._snip("after", number)
                except Exception as error:  # noqa: BLE001 - as a driver does: the plan decides
                    step = plan.throw(error)
                else:
                    step = plan.send(answer)
        except StopIteration as stop:
            return stop.value

    def _snip(self, moment: str, number: int) -> None:
        if self.cut == (moment, number):
            self.cut = None
            raise StoreUnavailable(f"cut {moment} step {number}")


class Scene:
    """The world on one store, one operation, and the places to cut it."""

    def __init__(self, name: str, open_store: Callable[[], Any]) -> None:
        self.name = name
        self.open_store = open_store
        self.before, self.after = before_and_after(name)

    def cuts(self) -> Iterator[tuple[Point, Harness, ops.Operation[Any], Scissors]]:
        """Every point in turn, each with a fresh world whose operation has just been cut there."""
        with self.cut(None) as (harness, operation, scissors):
            steps = scissors.steps
            yield None, harness, operation, scissors
        assert steps > 0
        for number in range(steps):
            for moment in ("before", "after"):
                with self.cut((moment, number)) as (harness, operation, scissors):
                    yield (moment, number), harness, operation, scissors

    @contextmanager
    def cut(self, cut: Point) -> Iterator[tuple[Harness, ops.Operation[Any], Scissors]]:
        """A fresh world whose operation has just been cut."""
        with self.open_store() as (harness, scissors):
            operation = dict(operations(World(harness)))[self.name]
            scissors.target, scissors.cut, scissors.steps = operation, cut, 0
            if cut is None:
                harness.run(operation)  # and the reply is lost
            else:
                try:
                    harness.run(operation)
                except StoreUnavailable:
                    assert scissors.cut is None
                assert scissors.cut is None, "the operation took fewer steps than before"
            scissors.target = None
            yield harness, operation, scissors


def see(harness: Harness) -> Seen:
    seen = everything(harness.run, IDS, harness.clock())
    shared, parked = circuits.seen(harness.run, QUEUES)
    return {**seen, "records": records(harness.run, LOOKS), "registers": shared, "parked": parked}


WORLD = list(operations(reference()))
ONE_OF_EACH = {type(operation): name for name, operation in WORLD}.values()
# The colours share the plans and part in how they carry them out, which one operation of each kind shows.
CUTS = [
    (name, f"{store}-{colour}")
    for name, _ in WORLD
    for store in STORES
    for colour in COLOURS
    if colour == "sync" or (name in ONE_OF_EACH and store != "redis_slots")
]


@pytest.fixture
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


@pytest.mark.parametrize(("name", "open_store"), CUTS, indirect=["open_store"])
def test_a_cut_anywhere_loses_nothing(name: str, open_store: Callable[[], Any]) -> None:
    """Whatever was cut, each job stands where it was or where it should be; the repetition ends as if all went well."""
    scene = Scene(name, open_store)
    for point, harness, operation, scissors in scene.cuts():
        seen = see(harness)
        check_whole(seen)
        check_each_is_before_or_after(seen, scene.before, scene.after)
        if scissors.features.atomic_across_queues and not goes_in_parts(scissors, operation):
            assert comparable(seen) in (comparable(scene.before), comparable(scene.after)), point
        harness.run(operation)
        assert_same(see(harness), scene.after, point, slots=getattr(scissors, "cluster", False))


@pytest.mark.parametrize("open_store", [f"{store}-sync" for store in STORES], indirect=True)
@pytest.mark.parametrize("name", [name for name, operation in WORLD if operation.writes])
def test_a_cut_anywhere_leaves_the_unique_keys_with_the_living(name: str, open_store: Callable[[], Any]) -> None:
    for point, harness, _, _ in Scene(name, open_store).cuts():
        seen = see(harness)
        held = keys_held(harness)
        expected = {(view.queue, view.unique): view.id for view in seen["jobs"].values() if holds(view)}
        for key in expected.keys() | set(held):
            assert held.get(key) == expected.get(key), (point, key)


def test_every_operation_is_cut() -> None:
    """A new operation fails here until it stands in the world's list."""
    covered = {type(operation) for _, operation in WORLD}
    modules = [module.__name__ for module in (ops, once_records, registers, parking)]
    ours = {kind for kind in ops.Operation.__subclasses__() if kind.__module__ in modules}
    assert ours == covered  # those of the outbox are cut in tests/outbox


def goes_in_parts(store: Any, operation: ops.Operation[Any]) -> bool:
    """PostgreSQL takes each record and ends each job with all that belongs to it, but not all of them in one step."""
    in_parts = isinstance(operation, once_records.TakeOnce) or (
        isinstance(operation, ops.Settle) and any(outcome.once or outcome.then for outcome in operation.outcomes)
    )
    return in_parts and getattr(store, "dialect", "") == "postgres"


def check_each_is_before_or_after(seen: Seen, before: Seen, after: Seen) -> None:
    """Each job, each record, and what ends together with a job."""
    for id in IDS:
        was, now = before["jobs"].get(id), seen["jobs"].get(id)
        assert now in (was, after["jobs"].get(id)), id
        if was and now:
            assert now.token >= was.token
    for name, record in seen["records"].items():
        assert record in (before["records"][name], after["records"][name]), name
    assert seen["registers"] in (before["registers"], after["registers"])  # all of them or none
    for ids, names in TOGETHER:
        assert some(seen, ids, names) in (some(before, ids, names), some(after, ids, names)), (ids, names)


def some(seen: Seen, ids: Iterable[str], names: Iterable[str]) -> list[Any]:
    """Jobs and once records."""
    return [seen["jobs"].get(id) for id in ids] + [seen["records"][name] for name in names]


def assert_same(seen: Seen, expected: Seen, point: object, *, slots: bool) -> None:
    """But for slots: a rescue cut between two leaves a worker rescued in parts, whose last job looks alone."""
    if slots:
        seen, expected = (
            {**each, "jobs": {id: _in_company(job) for id, job in each["jobs"].items()}} for each in (seen, expected)
        )
    assert seen == expected, point


def _in_company(view: ops.JobView) -> ops.JobView:
    memory = msgspec.structs.replace(trail.decode(view.trail), alone=False)
    return msgspec.structs.replace(view, trail=trail.encode(memory))


def comparable(seen: Seen) -> Seen:
    """Without leases: an operation may have told the store first that its worker lives."""
    return {what: seen[what] for what in ("jobs", "lists", "records", "registers", "parked")}


def holds(view: ops.JobView) -> bool:
    """Whether this job should hold its key: `new4` gives it up when it starts, and never starts here."""
    return view.unique is not None and view.state in LIVE


def keys_held(harness: Harness) -> dict[tuple[str, str], str]:
    """Who holds which key, found out by asking for each: the free ones are taken by that."""
    probes = tuple(job(f"probe {queue} {key}", queue, unique=key) for queue, key in KEYS)
    answers = harness.run(ops.Enqueue(probes))
    return {place: answer.id for place, answer in zip(KEYS, answers, strict=True) if answer.status == "duplicate"}
