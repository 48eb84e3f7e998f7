"""Where the living begin, while dead rows pile up before them.

Vacuum may not clear away what an old transaction of anybody's might still want to see (B129). Until that one ends, each
look at the head of a queue walks over all rows that were taken since. The second of two looks that turn out slow is
therefore remembered (one may have waited for the processor only), and the next ones begin where it ended. What comes in
before that place (a higher priority, a job given back) is found by the next whole look, which is made when ten times
the cost of the last one has passed. Quick looks are always whole, so that nothing of this is noticed where nothing is
in the way.

These are hints: each process has its own, and losing them costs nothing but time.
"""

from __future__ import annotations

from collections.abc import Sequence

SLOW_US = 10_000  # a whole look that took longer has met dead rows by the thousand
PATIENCE = 10  # times its cost that may pass until the next whole look
MOST = 100  # workers remembered

Place = tuple[int, int]  # (rank, place)
FIRST: Place = (-(2**31), -(2**63))


class Heads:
    """What this process remembers of its workers' looks, and of the tombstones it has cleared away."""

    def __init__(self) -> None:
        self._floors: dict[str, dict[str, Place]] = {}
        self._whole: dict[str, tuple[int, int]] = {}  # worker -> (when the last whole look ended, what it took)
        self._slow: set[str] = set()  # workers whose last whole look was slow
        self.buried_us = 0  # tombstones that end before this are gone

    def floors(self, worker: str, queues: Sequence[str]) -> list[Place]:
        """Where the next look of a worker begins in each queue."""
        floors = self._floors.get(worker, {})
        return [floors.get(queue, FIRST) for queue in queues]

    def looked(self, worker: str, ends: dict[str, Place], at_us: int, took_us: int) -> None:
        """After a look that brought as many jobs as were wanted: in each queue it ended at `ends`."""
        if worker not in self._floors:
            if not self._again_slow(worker, took_us):
                return
            if len(self._floors) >= MOST:
                self._floors.clear()
            self._floors[worker] = {}
            self._whole[worker] = (at_us, took_us)
        since, cost = self._whole[worker]
        if abs(at_us - since) > PATIENCE * cost:
            self.forget(worker)
        else:
            self._floors[worker] |= ends

    def _again_slow(self, worker: str, took_us: int) -> bool:
        """Whether this whole look of a worker was slow, and the one before it too."""
        before = worker in self._slow
        if took_us < SLOW_US:
            self._slow.discard(worker)
        else:
            self._slow = {worker, *self._slow} if len(self._slow) < MOST else {worker}
        return before and took_us >= SLOW_US

    def forget(self, worker: str) -> None:
        """The next look is a whole one."""
        self._floors.pop(worker, None)
        self._whole.pop(worker, None)

    def buried(self, until_us: int | None) -> None:
        """Tombstones up to this end were cleared away. Stragglers are left to `Prune`, which looks at all."""
        if until_us is not None:
            self.buried_us = max(self.buried_us, until_us)
