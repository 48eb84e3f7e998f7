"""What a process remembers of its claims: first of all where the living begin, while dead rows pile up before them.

What was taken from a queue stays in its index until no open transaction of anybody's might still want to see it
(B129). Until that one ends, each look at the head of a queue walks over all that was taken since. A claim that turns
out slow is therefore remembered, and the next ones begin where it ended. What comes in before that place (a higher
priority, a job given back) is found by the next whole look, which is made when ten times the cost of the last one has
passed. Quick looks are always whole, so that nothing of this is noticed where nothing is in the way.

These are hints: each process has its own, and losing them costs nothing but time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

SLOW_US = 1_000  # a claim that took longer than this,
SLOW_JOB_US = 20  # and this for each of its jobs, has most likely met dead rows
PATIENCE = 10  # times its cost that may pass until the next whole look
MOST = 1000  # workers remembered
MOST_CLAIMS = 20_000  # claims remembered

Place = tuple[int, int]  # (turn, place)


class Heads:
    """What this process remembers of its workers' claims, and of the tombstones it has cleared away."""

    def __init__(self) -> None:
        self._floors: dict[str, dict[str, Place]] = {}
        self._whole: dict[str, tuple[int, int]] = {}  # worker -> (when the last whole look ended, what it took)
        self._claims: dict[bytes, int] = {}
        self.buried_us = -1  # tombstones that ended before this are gone; stragglers are left to `Prune`

    def claimed(self, claims: Mapping[bytes, int]) -> None:
        """Jobs whose ids are random, by their token: what is left of them when they end is known beforehand."""
        if len(self._claims) > MOST_CLAIMS:
            self._claims.clear()
        self._claims.update(claims)

    def was_claimed(self, id: bytes, token: int) -> bool:
        """Whether this process remembers that claim; it is forgotten with that."""
        return self._claims.pop(id, None) == token

    def passed(self, worker: str) -> Collection[str]:
        """Queues of which this worker's claims do not begin at the head."""
        return self._floors.get(worker, {})

    def floors(self, worker: str, now: int) -> Mapping[str, Place]:
        """Where the next claim of a worker begins, for the queues where that is not at their head."""
        if worker in self._whole:
            since, cost = self._whole[worker]
            if abs(now - since) > PATIENCE * cost:
                self.forget(worker)
        return self._floors.get(worker, {})

    def looked(self, worker: str, ends: Mapping[str, Place], jobs: int, now: int, took_us: int) -> None:
        """After a claim that brought as many jobs as were wanted: in each queue it ended at `ends`."""
        if worker not in self._floors:
            if took_us < SLOW_US + SLOW_JOB_US * jobs:
                return
            if len(self._floors) >= MOST:
                self._floors.clear()
                self._whole.clear()
            self._floors[worker] = {}
            self._whole[worker] = (now, took_us)
        self._floors[worker] |= ends

    def forget(self, worker: str) -> None:
        """The next look is a whole one."""
        self._floors.pop(worker, None)
        self._whole.pop(worker, None)
