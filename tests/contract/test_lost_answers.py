"""Between us and a database the network is cut: a request of an operation does not arrive, or its answer is lost.

The last request commits. A driver never sends it again by itself, since it cannot know whether it was carried out: the
operation ends in an error, all of it was done or nothing, and repeating it ends as if all had gone well.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from headrace.core.operations import Operation, Prune, Workers
from headrace.errors import StoreUnavailable
from headrace.testing.clock import VirtualClock
from headrace.testing.conformance import Harness
from tests.contract.stores import COLOURS, DATABASES, in_colour, open_driver
from tests.contract.test_crash_points import (
    before_and_after,
    check_each_is_before_or_after,
    comparable,
    goes_in_parts,
    reference,
    see,
)
from tests.contract.views import check_whole
from tests.contract.world import World, operations
from tests.proxy import Proxy
from tests.waiting import wait_until

# shorter ways through what others go through as well
ALIKE = ("cancel ", "prune by", "enqueue again", "amend a register")
WRITES = [
    name
    for name, operation in operations(reference())
    if operation.writes and operation.needs_schema and not name.startswith(ALIKE)
]
BOTH_COLOURS = {"enqueue many", "claim", "settle many"}
CASES = [
    (kind, colour, name)
    for kind in DATABASES
    for number, name in enumerate(WRITES)
    for colour in COLOURS
    if name in BOTH_COLOURS or colour == COLOURS[number % 2]
]
MOST = 12  # requests of one operation
READY = b"Z\0\0\0\5I"  # PostgreSQL: ready for the next query, in no transaction

Lose = Callable[[Proxy], None]


def end_of_transaction(kind: str, proxy: Proxy, skip: int) -> None:
    """Lose the answer that ends one: to a commit, or to a statement that is complete in itself."""
    if kind == "postgres":  # the text of a statement that has been prepared is not sent again
        proxy.drop_answer(READY, skip)
    else:
        proxy.drop_reply(b"commit", skip=skip)


class Scene:
    """One operation on the world, on a store behind the proxy."""

    def __init__(self, case: tuple[str, str, str], request: pytest.FixtureRequest) -> None:
        self.kind, self.colour, self.name = case
        self.request = request
        factory: Callable[[str], Proxy] = request.getfixturevalue("proxy_factory")
        self.proxy = factory(request.getfixturevalue(f"{self.kind}_url"))
        self.before, self.after = before_and_after(self.name)

    @contextmanager
    def opened(self) -> Iterator[tuple[Harness, Harness, Operation[object]]]:
        """The world, seen from here; the same through the proxy, on a connection that has been used; an operation."""
        clock = VirtualClock()
        near = open_driver(self.kind, clock, self.request)
        self.store = near.store
        far = type(near)(self.proxy.url, near.store)
        with in_colour(near, "sync") as run, in_colour(far, self.colour) as run_far:
            here, there = Harness(run, clock), Harness(run_far, clock)
            operation = dict(operations(World(here)))[self.name]
            here.tick_us = there.tick_us = 0
            assert there.run(Workers()) == here.run(Workers())
            yield here, there, operation

    def play(self, lose: Lose) -> str:
        """What is there when something has been lost: "nothing", "all", "some" where an operation goes in parts.

        Or "unharmed": there was nothing to lose.
        """
        with self.opened() as (harness, far, operation):
            lose(self.proxy)
            try:
                far.run(operation)
            except StoreUnavailable:
                assert not self.proxy.forgive()
            else:  # or a hint was lost, which came after it
                self.proxy.forgive()
                assert see(harness) == self.after
                return "unharmed"
            seen = see(harness)
            check_whole(seen)
            far.run(operation)
            if isinstance(operation, Prune):
                # it passes over what others have locked, as the transaction has whose connection was cut, until the
                # server has heard of that
                wait_until(lambda: see(harness) == self.after or not harness.run(operation), 10, "all to be pruned")
            assert see(harness) == self.after
            check_each_is_before_or_after(seen, self.before, self.after)
            for found, expected in (("nothing", self.before), ("all", self.after)):
                if comparable(seen) == comparable(expected):
                    return found
            assert goes_in_parts(self.store, operation)
            return "some"


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_what_is_lost_on_the_way_is_done_wholly_or_not_at_all(
    case: tuple[str, str, str], request: pytest.FixtureRequest
) -> None:
    scene = Scene(case, request)
    for number in range(MOST):  # not the same number each time, since some requests go together
        found = scene.play(partial(Proxy.drop_request, skip=number))
        assert number or found == "nothing"  # later ones may be no more than the end of what has been carried out
        if found == "unharmed":
            break
    if comparable(scene.before) == comparable(scene.after):
        return
    ends: list[str] = []
    skip = 0  # not the same for each connection, since one prepares a statement when it has seen it before
    while "all" not in ends and len(ends) < MOST:
        ends.append(scene.play(partial(end_of_transaction, scene.kind, skip=skip)))
        skip = skip + 1 if ends[-1] in ("nothing", "some") else max(0, skip - 1)
    assert ends[-1] == "all", ends


def test_the_cut_commits_are_of_every_kind() -> None:
    assert {kind for kind, _, _ in CASES} == set(DATABASES)
    assert {name for _, _, name in CASES} == set(WRITES) > BOTH_COLOURS
