"""What a guarantee holds in its hands: a store that runs operations in one colour, and the store's clock."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from headrace.core import operations as ops
from headrace.core.ports import Driver
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS, VirtualClock

R = TypeVar("R")

LEASE = 30 * MICROSECONDS
QUEUE = "q"

Guarantee = Callable[["Harness"], None]
GUARANTEES: dict[str, Guarantee] = {}


def guarantee(check: Guarantee) -> Guarantee:
    """Enter `check` into `GUARANTEES` under its name, which says what is promised."""
    name = check.__name__
    if name in GUARANTEES:
        raise ValueError(f"two guarantees are named {name}")
    GUARANTEES[name] = check
    return check


class Run(Protocol):
    """Runs one operation; may be called from several threads."""

    def __call__(self, operation: ops.Operation[R], /) -> R:
        """The operation's answer."""
        ...


class LoopThread:
    """Runs a driver's asynchronous colour from any thread: `run` awaits `driver.arun` in a loop of its own."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="conformance loop", daemon=True)
        self._thread.start()

    def run(self, operation: ops.Operation[R], /) -> R:
        """The answer of `driver.arun(operation)`."""
        return asyncio.run_coroutine_threadsafe(self.driver.arun(operation), self.loop).result(60)

    def close(self) -> None:
        """Close the driver in its loop, then the loop."""
        asyncio.run_coroutine_threadsafe(self.driver.aclose(), self.loop).result(60)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(60)
        self.loop.close()


def job(id: str, queue: str = QUEUE, **options: Any) -> ops.NewJob:
    """A job with everything else at its default."""
    options.setdefault("task", "task")
    options.setdefault("body", b"body of " + id.encode("utf-8"))
    if options.get("unique") is not None:
        options.setdefault("unique_us", 24 * 3600 * MICROSECONDS)
    return ops.NewJob(id, queue, **options)


class Harness:
    """A fresh, empty store and short ways to say what guarantees say.

    Every operation lets one microsecond pass, so that no two happen at the same time; set `tick_us` to 0 where
    they should.
    """

    def __init__(self, run: Run, clock: VirtualClock) -> None:
        """`run` executes operations on the store, whose overriding `now` is `clock`."""
        self.clock = clock
        self.tick_us = 1
        self._run = run
        self._numbers: dict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))

    def run(self, operation: ops.Operation[R]) -> R:
        """Run one operation."""
        self.clock.advance_us(self.tick_us)
        return self._run(operation)

    def enqueue(self, *jobs: ops.NewJob | str) -> list[ops.Enqueued]:
        """Enqueue; a bare id stands for a job with all defaults."""
        return self.run(ops.Enqueue(tuple(job(new) if isinstance(new, str) else new for new in jobs)))

    def put(self, *jobs: ops.NewJob | str) -> None:
        """Enqueue what must be new."""
        answers = self.enqueue(*jobs)
        assert [answer.status for answer in answers] == ["new"] * len(jobs), answers

    def status(self, new: ops.NewJob | str) -> str:
        """Enqueue one and answer how that ended."""
        return self.enqueue(new)[0].status

    def claim(
        self,
        limit: int = 1,
        *,
        worker: str = "w1",
        queues: Iterable[str] = (QUEUE,),
        lease_us: int = LEASE,
        number: int | None = None,
    ) -> ops.Claimed:
        """Claim under the worker's next number, or repeat an older one."""
        number = next(self._numbers[worker]) if number is None else number
        return self.run(ops.Claim(worker, number, tuple(queues), limit, lease_us))

    def take(self, limit: int = 1, **options: Any) -> list[ops.ClaimedJob]:
        """Claim, and answer just the jobs, which must be as many as `limit`."""
        jobs = self.claim(limit, **options).jobs
        assert len(jobs) == limit, jobs
        return jobs

    def running(self, new: ops.NewJob | str, **options: Any) -> ops.ClaimedJob:
        """A job that was just enqueued and claimed, alone in its queue."""
        new = job(new) if isinstance(new, str) else new
        self.put(new)
        claimed = self.take(1, queues=(new.queue,), **options)[0]
        assert claimed.id == new.id
        return claimed

    def settle(self, claimed: ops.ClaimedJob, state: State, *, worker: str = "w1", **options: Any) -> bool:
        """End one claim; False when it was stale."""
        return self.settle_all([outcome(claimed, state, **options)], worker=worker)[0]

    def settle_all(self, outcomes: Iterable[ops.Outcome], *, worker: str = "w1") -> list[bool]:
        """End claims."""
        return self.run(ops.Settle(worker, tuple(outcomes)))

    def finished(self, new: ops.NewJob | str, state: State = State.SUCCEEDED, **options: Any) -> ops.ClaimedJob:
        """A job that was enqueued, claimed and brought to a terminal state."""
        claimed = self.running(new)
        assert self.settle(claimed, state, **options)
        return claimed

    def beat(
        self, *held: ops.ClaimedJob, worker: str = "w1", queues: Iterable[str] = (QUEUE,), open_claim: int = 0
    ) -> ops.Beaten:
        """A heartbeat."""
        claims = tuple(ops.Held(each.id, each.queue, each.token) for each in held)
        return self.run(ops.Beat(worker, tuple(queues), LEASE, claims, open_claim))

    def rescue(self, queues: Iterable[str] = (QUEUE,), limit: int = 1000) -> list[ops.Orphan]:
        """Take jobs from dead workers."""
        return self.run(ops.Rescue(tuple(queues), limit)).jobs

    def prune(self, age_us: int | None = None, most: int | None = None, **options: Any) -> int:
        """How many failed jobs one prune deletes, after which nothing may be left over."""
        pruned = self.run(ops.Prune(age_us, most, **options))
        assert not pruned.more
        return pruned.failed

    def crash(self) -> list[ops.Orphan]:
        """Let all leases run out and rescue."""
        self.clock.advance_us(LEASE)
        return self.rescue()

    def get(self, id: str) -> ops.JobView:
        """A job that must be there."""
        view = self.run(ops.Get(id))
        assert view is not None, f"job {id!r} is not there"
        return view

    def state(self, id: str) -> State | None:
        """The state of a job, None where there is none."""
        view = self.run(ops.Get(id))
        return view.state if view else None

    def listed(self, state: State, **options: Any) -> list[str]:
        """The ids of a first page."""
        return [view.id for view in self.run(ops.List(state, **options)).jobs]

    def queue(self, name: str = QUEUE) -> ops.QueueView:
        """The counts of a queue that must be known."""
        return next(view for view in self.run(ops.Queues()) if view.name == name)

    def held(self, worker: str = "w1") -> int:
        """How many jobs the store holds for a worker."""
        return sum(view.held for view in self.run(ops.Workers()) if view.worker == worker)

    def parallel(self, *calls: Callable[[], R]) -> list[R]:
        """Call all at once, each in a thread; the answers stand in order, the first error is raised."""
        barrier = threading.Barrier(len(calls))

        def meet(call: Callable[[], R]) -> R:
            barrier.wait(30)
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(meet, calls))


def held(claimed: ops.ClaimedJob) -> ops.Held:
    """The claim as its worker tells it in a heartbeat."""
    return ops.Held(claimed.id, claimed.queue, claimed.token)


def outcome(claimed: ops.ClaimedJob, state: State, **options: Any) -> ops.Outcome:
    """How a claim ends."""
    return ops.Outcome(claimed.id, claimed.queue, claimed.token, state, **options)


def ids(jobs: Iterable[Any]) -> list[str]:
    """Their ids, in order."""
    return [each.id for each in jobs]


def flat(lists: Iterable[list[R]]) -> list[R]:
    """One list of all, in order."""
    return list(itertools.chain.from_iterable(lists))
