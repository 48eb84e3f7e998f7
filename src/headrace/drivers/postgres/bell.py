"""Hints, not too many: the first of a queue goes at once, then at most one in `GAP_S`, the last one never lost.

Each NOTIFY takes a lock of the whole server when it commits, so that a busy queue must not send one for every job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from headrace.core import operations as ops
from headrace.core.parking import Unpark
from headrace.core.states import State

GAP_S = 0.01  # an idle worker picks jobs up in a few milliseconds, also where several come in a second
EVERYBODY = ""  # the hint for all queues
CLOSE_S = 5.0
MOST = 1_000  # queues remembered
LONGEST = 2_000  # characters of a name that fit into a hint, whatever they are


class Bell:
    """Decides what is sent at once; the rest is given to `send`, in a thread, when its time has come."""

    def __init__(self, send: Callable[[list[str]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sent: dict[str, float] = {}
        self._late: set[str] = set()
        self._timer: threading.Timer | None = None  # that has not yet run
        self._last: threading.Timer | None = None  # that may be running

    def due(self, queues: Iterable[str]) -> list[str]:
        """Those of `queues` whose hint the caller shall send now."""
        now = time.monotonic()
        with self._lock:
            ready = [queue for queue in queues if now - self._sent.get(queue, -GAP_S) >= GAP_S]
            late = set(queues).difference(ready)
            if len(self._sent) > MOST:
                self._sent.clear()
            self._sent |= dict.fromkeys(ready, now)
            self._late |= late
            if late and self._timer is None:
                self._timer = self._last = threading.Timer(GAP_S, self._trail)
                self._timer.daemon = True
                self._timer.start()
        return ready

    def _trail(self) -> None:
        if queues := self._take():
            self._send(queues)

    def _take(self) -> list[str]:
        with self._lock:
            self._timer = None
            queues, self._late = sorted(self._late), set()
            self._sent |= dict.fromkeys(queues, time.monotonic())
        return queues

    def close(self) -> None:
        """Send what is still to be sent, and wait for what is being sent."""
        with self._lock:
            timer = self._last
            if timer is not None:
                timer.cancel()
        self._trail()
        if timer is not None:
            timer.join(CLOSE_S)


def queues_of(operation: object, answer: object) -> set[str]:
    """The queues in which an operation may have left jobs; `EVERYBODY` where it does not say."""
    match operation, answer:
        case ops.Enqueue(jobs=jobs), _:
            queues = {job.queue for job in jobs}
        case ops.Settle(outcomes=outcomes), _:
            queues = {
                outcome.queue for outcome in outcomes if outcome.then or outcome.state in {State.READY, State.SCHEDULED}
            }
        case _, ops.Rescued(jobs=orphans):
            queues = {orphan.queue for orphan in orphans}
        case ops.Claim() | ops.Beat() | ops.Leave() | ops.Promote() | Unpark(), _:
            queues = set(operation.queues)
        case _:
            queues = {EVERYBODY}
    return {queue if len(queue) <= LONGEST else EVERYBODY for queue in queues}
