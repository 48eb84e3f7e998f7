"""Random operations on a real store and on the memory model, side by side on one clock, must agree in every answer.

HEADRACE_MODEL_EXAMPLES=2000 looks longer, with examples of its own each time. A red run prints
`@reproduce_failure`, which replays it exactly.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.drivers.memory import MemoryDriver
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import MICROSECONDS, VirtualClock
from headrace.testing.conformance.harness import LEASE
from tests.contract.stores import STORES, in_colour, open_driver
from tests.contract.views import check_whole, in_lists
from tests.model.parking_rules import ParkingRules
from tests.model.record_rules import RecordRules

EXAMPLES = int(os.environ.get("HEADRACE_MODEL_EXAMPLES", "150"))

# An id belongs to one queue, as ids are made for one enqueue: Redis looks for it in that queue only.
IDS = {f"j{n}": "q1" if n < 6 else "q2" for n in range(10)}
QUEUES = ("q1", "q2")
# A worker serves the same queues for as long as it lives.
WORKERS = {"w1": ("q1", "q2"), "w2": ("q2", "q1"), "w3": ("q1",)}

ids = st.sampled_from(sorted(IDS))
queues = st.sampled_from(QUEUES)
workers = st.sampled_from(sorted(WORKERS))
delays = st.sampled_from((0, 0, 0, -1, 1, MICROSECONDS, 5 * MICROSECONDS, 5 * MICROSECONDS, 40 * MICROSECONDS))
keeps = st.sampled_from((0, 0, MICROSECONDS, 100 * MICROSECONDS))
memories = st.sampled_from((None, None, trail.encode(trail.Trail(attempts=1, errors=1)), b"\x00\xff"))
states = st.sampled_from(
    [state for state in State if state != State.RUNNING] + [State.READY, State.SCHEDULED, State.FAILED]
)
picks = st.integers(0, 30)


def new_jobs_of(ids: st.SearchStrategy[str]) -> st.SearchStrategy[ops.NewJob]:
    """Jobs under these ids, each in the queue of its id."""
    return st.builds(
        lambda id, *parts, **options: ops.NewJob(id, IDS[id], *parts, **options),
        ids,
        st.sampled_from(("t1", "t2")),
        st.binary(max_size=3),
        priority=st.sampled_from((0, 0, 0, 0, 1, -100, 100)),
        delay_us=delays,
        due_us=st.none()
        | st.none()
        | st.integers(-50, 50).map(lambda seconds: VirtualClock()() + seconds * MICROSECONDS),
        unique=st.none() | st.none() | st.sampled_from(("k1", "k2", "")),
        unique_until=st.sampled_from(("end", "start")),
        unique_us=st.sampled_from((0, MICROSECONDS, 3600 * MICROSECONDS)),
        derived=st.booleans(),
    )


new_jobs = new_jobs_of(ids)


class Comparison(RecordRules, ParkingRules):
    """Each rule runs one operation on both."""

    def __init__(self, opened: Any) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self._context = opened(self.clock)
        self.run = self._context.__enter__()
        self.model = MemoryDriver(MemoryStore(now=self.clock)).run
        self.numbers = dict.fromkeys(WORKERS, 0)
        self.claims: list[tuple[str, ops.ClaimedJob]] = []
        self.both(ops.Prepare())

    def teardown(self) -> None:
        self._context.__exit__(None, None, None)

    def both(
        self, operation: ops.Operation[Any], tidy: Callable[[Any], Any] = lambda answer: answer, *, tick_us: int = 1
    ) -> Any:
        """Run on both; `tidy` removes what an answer leaves open, such as the order of a set."""
        self.clock.advance_us(tick_us)
        expected = self.model(operation)
        answer = self.run(operation)
        assert tidy(answer) == tidy(expected), operation
        return answer

    @invariant()
    def everything_looks_the_same(self) -> None:
        now = self.clock()
        seen = in_lists(self.run, now)
        assert seen == in_lists(self.model, now)
        check_whole(seen)

    @initialize(jobs=st.tuples(*(new_jobs_of(st.just(id)) for id in IDS)))
    def fill(self, jobs: tuple[ops.NewJob, ...]) -> None:
        self.both(ops.Enqueue(jobs))

    @rule(jobs=st.lists(new_jobs, min_size=1, max_size=9))
    def enqueue(self, jobs: list[ops.NewJob]) -> None:
        self.both(ops.Enqueue(tuple(jobs)))

    @rule(id=ids)
    def get(self, id: str) -> None:
        self.both(ops.Get(id))

    @rule(worker=workers, limit=st.sampled_from((0, 1, 2, 3, 10, 10)))
    def claim(self, worker: str, limit: int) -> None:
        self.numbers[worker] += 1
        claimed = self.both(ops.Claim(worker, self.numbers[worker], WORKERS[worker], limit, LEASE))
        self.claims += [(worker, job) for job in claimed.jobs]

    @rule(worker=workers, back=st.integers(0, 2))
    def repeat_a_claim(self, worker: str, back: int) -> None:
        """The order of a repeated answer is left open, and so is what is ready beside it."""
        number = self.numbers[worker] - back
        if number > 0:
            claimed = self.both(ops.Claim(worker, number, WORKERS[worker], 5, LEASE), _unordered)
            self.claims += [(worker, job) for job in claimed.jobs]

    @rule(settled=st.lists(st.tuples(picks, states, delays, memories, keeps), min_size=1, max_size=8))
    def settle(self, settled: list[tuple[int, State, int, bytes | None, int]]) -> None:
        """Newest claims first, so that most are still held; the older ones are stale."""
        if self.claims:
            outcomes = []
            for pick, state, delay_us, memory, keep_us in settled:
                _, job = self.claims[-1 - pick % len(self.claims)]
                outcomes.append(
                    ops.Outcome(job.id, job.queue, job.token, state, max(0, delay_us), memory, keep_us, state.value)
                )
            self.both(ops.Settle("w1", tuple(outcomes)))

    @precondition(lambda self: self.claims)
    @rule(pick=picks, state=states, followers=st.lists(new_jobs, min_size=1, max_size=4))
    def settle_and_enqueue(self, pick: int, state: State, followers: list[ops.NewJob]) -> None:
        self.settle_with_followers(pick, state, tuple(followers))

    @rule(worker=workers, forgotten=picks, all_answered=st.booleans())
    def beat(self, worker: str, forgotten: int, all_answered: bool) -> None:
        """Of what it ever claimed, the worker has forgotten one job."""
        held = [ops.Held(job.id, job.queue, job.token) for owner, job in self.claims[-12:] if owner == worker]
        held = list({held.id: held for held in held}.values())
        if held:
            del held[forgotten % len(held)]
        open_claim = self.numbers[worker] + 1 if all_answered else self.numbers[worker]
        self.both(
            ops.Beat(worker, WORKERS[worker], LEASE, tuple(held), open_claim),
            lambda beaten: (beaten.now_us, _by_id(beaten.lost), _by_id(beaten.cancel), beaten.released),
        )

    @rule(worker=workers)
    def leave(self, worker: str) -> None:
        self.both(ops.Leave(worker, WORKERS[worker]))

    @rule(left_us=st.none() | st.sampled_from((0, 1)))
    def rescue(self, left_us: int | None = None) -> None:
        """With 0 it comes a microsecond too late."""
        not_after_us = None if left_us is None else self.clock() + left_us
        self.both(ops.Rescue(QUEUES, not_after_us=not_after_us), lambda rescued: _by_id(rescued.jobs))

    @rule(late=st.sampled_from((0, 1)), some=st.lists(ids, max_size=2))
    def crash(self, late: int, some: list[str]) -> None:
        """All leases run out, some jobs having been cancelled in time."""
        for id in some:
            self.both(ops.Cancel(id))
        self.clock.advance_us(LEASE + late)
        self.rescue()

    @rule(state=states, delay_us=delays, keep_us=keeps)
    def run_all(self, state: State, delay_us: int, keep_us: int) -> None:
        """One worker takes all that is ready, and everything ends alike."""
        known = len(self.claims)
        self.claim("w1", 10)
        outcomes = [
            ops.Outcome(job.id, job.queue, job.token, state, max(0, delay_us), None, keep_us, "alike")
            for _, job in self.claims[known:]
        ]
        self.both(ops.Settle("w1", tuple(outcomes)))

    @rule(queue=queues, limit=st.sampled_from((1, 1000)))
    def promote(self, queue: str, limit: int) -> None:
        """Which of several that fell due in one microsecond come first is left open, so a limit may not part them."""
        views = [view for id in IDS if (view := self.model(ops.Get(id))) is not None and view.queue == queue]
        tied = len({view.due_us for view in views}) < len(views)
        self.both(ops.Promote((queue,), 1000 if tied else limit))

    @rule(id=ids, keep_us=keeps)
    def cancel(self, id: str, keep_us: int) -> None:
        self.both(ops.Cancel(id, keep_us=keep_us))

    @rule(pick=picks, settled=states)
    def end_one_that_was_cancelled(self, pick: int, settled: State) -> None:
        """The worker had not heard of it, or it had."""
        if self.claims:
            _, job = self.claims[-1 - pick % len(self.claims)]
            self.both(ops.Cancel(job.id, job.queue))
            self.both(ops.Settle("w1", (ops.Outcome(job.id, job.queue, job.token, settled, MICROSECONDS),)))

    @rule(some=st.lists(ids, min_size=1, max_size=4))
    def replay(self, some: list[str]) -> None:
        self.both(ops.Replay(tuple(some)))

    @rule(some=st.lists(ids, min_size=1, max_size=3))
    def forget(self, some: list[str]) -> None:
        self.both(ops.Forget(tuple(some)))

    @rule(
        age_us=st.none() | st.sampled_from((0, 30 * MICROSECONDS)),
        most=st.none() | st.integers(0, 2),
        queue=st.none() | queues,
        task=st.none() | st.sampled_from(("t1", "t2")),
        limit=st.sampled_from((1, 1000)),
    )
    def prune(self, age_us: int | None, most: int | None, queue: str | None, task: str | None, limit: int) -> None:
        """To the end: which tombstones and kept jobs go in one step is left open, and so how many steps it takes."""
        prune = ops.Prune(age_us, most, queue, task, limit)
        self.both(prune, lambda pruned: pruned.failed)
        totals = []
        for run in (self.model, self.run):
            totals.append(0)
            for _ in range(1_000):
                pruned = run(prune)
                totals[-1] += pruned.failed
                if not pruned.more:
                    break
            else:
                raise AssertionError(f"{prune} never ends")
        assert totals[0] == totals[1]
        self.records_look_the_same()

    @rule(queue=queues, task=st.none() | st.sampled_from(("t1", "t2")), limit=st.integers(1, 3))
    def list_failed(self, queue: str, task: str | None, limit: int) -> None:
        self.both(ops.List(State.FAILED, queue, task, limit=limit), lambda page: (page.jobs, page.next is None))

    @rule(seconds=st.sampled_from((0.0005, 1, 1, 5, 5, 10, 29, 61, 25 * 3600)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)


def _by_id(items: list[Any]) -> list[Any]:
    return sorted(items, key=lambda item: (item.id, item.token))


def _unordered(claimed: ops.Claimed) -> tuple[Any, ...]:
    jobs = sorted(claimed.jobs, key=lambda job: job.id)
    return claimed.now_us, jobs, claimed.more, claimed.next_due_us


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.timeout(60 + EXAMPLES * 2)
def test_a_store_agrees_with_the_model(kind: str, request: pytest.FixtureRequest) -> None:
    """Memory against itself tries the machine."""

    def opened(clock: VirtualClock) -> Any:
        return in_colour(open_driver(kind, clock, request), "sync")

    run_state_machine_as_test(
        lambda: Comparison(opened),
        settings=settings(
            max_examples=EXAMPLES if kind != "memory" else 10,
            stateful_step_count=40,
            deadline=None,
            derandomize="HEADRACE_MODEL_EXAMPLES" not in os.environ,
            database=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
