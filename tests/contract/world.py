"""A small world with a job in every situation, and at least one instance of every operation upon it."""

from collections.abc import Iterator

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.once_records import EndOnce
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance import Harness
from headrace.testing.conformance.harness import LEASE, job, outcome
from tests.contract import circuits, records

QUEUES = ("q1", "q2")
WAITING = ("ready", "ready2", "due", "later", "crowd", "parked", *circuits.PARKED)
ENDED = ("failed", "failed2", "failed3", "kept", "gone")
RUNNING = ("run", "run2", "run3", "dead", "dead2", "dead3", "lost", "lost2")
LATER = ("new", "new2", "new3", "new4", "new5", "then", "then2", "then3", "then4", "nobody")
IDS = (*WAITING, *ENDED, *RUNNING, *LATER)
KEYS = tuple((queue, f"k-{id}") for id in IDS for queue in QUEUES)


class World:
    """The claims that were made while it was filled."""

    def __init__(self, harness: Harness) -> None:
        """Fill the harness' empty store. The same on every store, to the microsecond."""
        self.harness = harness
        self.claims: dict[str, ops.ClaimedJob] = {}
        harness.run(ops.Prepare())
        self._end()
        self._hold("dead", "dead", "dead2", "dead3")
        self._take("dead")
        self._lease("late", "late")
        harness.run(ops.Cancel("dead2"))
        harness.clock.advance_us(LEASE - 10 * MICROSECONDS)
        self._hold("alive", "run", "run2", "run3")
        self._hold("forgetful", "lost", "lost2")
        self._take("run", "run2", "lost2")
        self._lease("me", "mine", "free")
        self._wait()
        harness.run(ops.Cancel("run2"))
        harness.clock.advance(11)
        harness.beat(*(self.claims[id] for id in ("run", "run2", "run3")), worker="alive", queues=QUEUES)
        harness.tick_us = 0  # from here on time stands still

    def _end(self) -> None:
        h = self.harness
        memory = trail.encode(trail.Trail(attempts=2, errors=2))
        for id, queue, state in (
            ("failed", "q1", State.FAILED),
            ("failed2", "q1", State.FAILED),
            ("failed3", "q2", State.FAILED),
            ("kept", "q1", State.SUCCEEDED),
            ("gone", "q1", State.SUCCEEDED),
        ):
            h.put(self._job(id, queue))
            self.claims[id] = claimed = h.take(1, worker="past", queues=(queue,))[0]
            once = self._taken_to_end(id) if id in ("failed", "gone", "kept") else None
            keep_us = 25 * MICROSECONDS if id == "kept" else 0
            assert h.settle(claimed, state, trail=memory, keep_us=keep_us, once=once)
        assert h.run(ops.Leave("past", QUEUES)) == 0

    @staticmethod
    def _job(id: str, queue: str, **options: int) -> ops.NewJob:
        return job(id, queue, unique=f"k-{id}", **options)

    def _hold(self, worker: str, *names: str) -> None:
        """The last of them in q2."""
        h = self.harness
        h.put(*(self._job(id, "q2" if id == names[-1] else "q1") for id in names))
        for claimed in h.take(len(names), worker=worker, queues=QUEUES):
            self.claims[claimed.id] = claimed

    def _take(self, *names: str) -> None:
        """Each job takes the once record that is called like it."""
        for id in names:
            records.take(self.harness, records.of_job(self.claims[id], id))

    def _taken_to_end(self, id: str) -> ops.OnceEnd:
        """One that is stored together with the end of its job."""
        fence = records.take(self.harness, records.of_job(self.claims[id], id))
        keep_us = records.OVER_US if id == "kept" else records.DAY_US
        return records.end_of(id, fence, "failed" if id == "failed" else "done", keep_us=keep_us)

    def _lease(self, owner: str, *keys: str) -> None:
        """Records held by a lease; the free one is given back at once."""
        for key in keys:
            fence = records.take(self.harness, records.of_lease(owner, key))
            if key == "free":
                assert self.harness.run(EndOnce(owner, records.end_of(key, fence, "free", scope="")))

    def _wait(self) -> None:
        h = self.harness
        h.put(self._job("parked", "q1"))
        self.claims["parked"] = h.take(1, queues=("q1",), worker="alive")[0]
        self._take("parked")
        assert h.settle(self.claims["parked"], State.PARKED)
        self._hold("alive", *circuits.PARKED)
        for id, reason in circuits.PARKED.items():
            assert h.settle(self.claims[id], State.PARKED, worker="alive", reason=reason)
        circuits.fill(h)
        h.put(self._job("ready", "q1"), self._job("ready2", "q2", priority=3))
        h.put(self._job("due", "q1", delay_us=MICROSECONDS), self._job("later", "q1", delay_us=3600 * MICROSECONDS))
        h.put(self._job("crowd", "q1", priority=-5))


def operations(world: World) -> Iterator[tuple[str, ops.Operation[object]]]:
    """Named instances; each class of operation at least once."""
    yield "prepare", ops.Prepare()
    yield from _producers()
    yield from _workers(world)
    yield from _operators()
    yield from records.operations(world.harness, world.claims)
    yield from circuits.operations(QUEUES)
    yield "get", ops.Get("run")
    yield "list", ops.List(State.READY)
    yield "queues", ops.Queues()
    yield "workers", ops.Workers()
    yield "inspect", ops.Inspect()


def _producers() -> Iterator[tuple[str, ops.Operation[object]]]:
    yield "enqueue one", ops.Enqueue((job("new", "q1", unique="k-new"),))
    yield "enqueue again", ops.Enqueue((job("gone", "q1"),))
    yield (
        "enqueue many",
        ops.Enqueue(
            (
                job("new", "q1", unique="k-new"),
                job("run", "q1"),
                job("new2", "q2", unique="k-new2", delay_us=5),
                job("new3", "q1", unique="k-ready"),
                job("new4", "q2", unique="k-new4", unique_until="start"),
                job("new5", "q3", priority=9),
            )
        ),
    )
    yield "promote", ops.Promote(QUEUES)


def _workers(world: World) -> Iterator[tuple[str, ops.Operation[object]]]:
    yield "claim", ops.Claim("alive", 50, QUEUES, 3, LEASE)
    yield "claim of a new worker", ops.Claim("fresh", 1, ("q2", "q1"), 100, LEASE)
    yield "settle one", ops.Settle("alive", (outcome(world.claims["run"], State.SUCCEEDED),))
    memory = trail.encode(trail.Trail(attempts=1, errors=1))
    yield (
        "settle many",
        ops.Settle(
            "alive",
            (
                outcome(world.claims["run"], State.FAILED, trail=memory, reason="ValueError"),
                outcome(world.claims["run2"], State.SCHEDULED, delay_us=MICROSECONDS, trail=memory),
                outcome(world.claims["failed"], State.SUCCEEDED),
                outcome(world.claims["run3"], State.SCHEDULED, delay_us=MICROSECONDS, trail=memory),
                outcome(world.claims["lost"], State.READY, trail=memory),
                outcome(world.claims["lost2"], State.SUCCEEDED, keep_us=MICROSECONDS),
            ),
        ),
    )
    held = tuple(
        ops.Held(id, world.claims[id].queue, world.claims[id].token) for id in ("run", "run2", "run3", "failed")
    )
    yield "beat", ops.Beat("alive", QUEUES, LEASE, held, 50)
    yield "beat of one that lost a reply", ops.Beat("forgetful", QUEUES, LEASE, (), 50)
    yield "leave", ops.Leave("alive", QUEUES)
    yield "rescue", ops.Rescue(QUEUES)


def _operators() -> Iterator[tuple[str, ops.Operation[object]]]:
    for id in ("ready", "later", "due", "parked", "run", "failed", "gone", "nobody"):
        yield f"cancel {id}", ops.Cancel(id, keep_us=MICROSECONDS if id == "later" else 0)
    yield "cancel with a hint", ops.Cancel("ready2", "q2")
    yield "replay", ops.Replay(("failed", "failed3", "run", "nobody", "failed2"))
    yield "replay with a hint", ops.Replay(("failed",), "q1")
    yield "forget", ops.Forget(("failed", "failed3", "kept", "run", "nobody"))
    yield "prune by count", ops.Prune(most=1)
    yield "prune by age", ops.Prune(age_us=MICROSECONDS, queue="q1")
    yield "prune what is over", ops.Prune()
