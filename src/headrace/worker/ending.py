"""What becomes of a job whose run has ended: an outcome for the store, and word to whoever watches."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from msgspec.structs import replace

from headrace.core import endings, settle, trail
from headrace.core.operations import Outcome
from headrace.core.states import State
from headrace.worker.completed import committed, tell_afterwards, undone
from headrace.worker.failing import tell_hooks
from headrace.worker.once import end_record
from headrace.worker.polls import follow
from headrace.worker.report import tell
from headrace.worker.settle import Settler
from headrace.worker.shared import Shared
from headrace.worker.table import Work


class Reporter:
    """Concludes endings into outcomes, and reports them."""

    def __init__(self, shared: Shared, settler: Settler) -> None:
        self._shared = shared
        self._settler = settler
        # runs that have left their slot, but not the worker: they wait for a thread that has overrun its timeout, or
        # for a transaction of their handler's
        self.late: set[asyncio.Task[Any] | None] = set()

    def end(self, work: Work, ending: endings.Ending) -> None:
        """Conclude and report it."""
        self._shared.gates.feedback.note(work, ending)
        outcome = self.conclude(work, ending)
        said = "" if outcome.state is State.SUCCEEDED else settle.said(ending, self._shared.policy(work))
        self.report(work, outcome, said)

    def conclude(self, work: Work, ending: endings.Ending) -> Outcome:
        """The one place where an ending becomes an outcome. Nothing is told or stored here; see `report`."""
        shared = self._shared
        outcome = settle.conclude(
            work.job,
            # given back before it was prepared: what the job remembers must go back with it
            trail.decode(work.job.trail) if work.trail is None else work.trail,
            ending,
            self._policy(work, ending),
            now_us=shared.store_time.now_us(),
            worker=shared.id,
            rng=shared.rng,
            version=shared.version,
        )
        if work.task is not None and work.task.poll is not None:
            outcome = follow(work, ending, outcome)
        elif work.guard is not None:
            outcome = end_record(work, ending, outcome)
        return outcome if outcome.state is not State.FAILED else tell_hooks(shared.hooks, work, ending, outcome)

    def _policy(self, work: Work, ending: endings.Ending) -> settle.Policy:
        policy = self._shared.policy(work)
        probe = None if work.gate is None else work.gate.vain_probe(ending)
        return policy if probe is None else replace(policy, probe=probe)

    def report(self, work: Work, outcome: Outcome, said: str = "", *, stored: bool = False) -> None:
        """Once for each claim. `stored`: its handler has put the outcome into the store itself."""
        if work.ended:
            return  # handed back when the worker's grace was over; its handler came to an end after all
        work.ended = True
        work.running = None
        if stored:
            self._shared.table.drop(outcome.queue, outcome.id, outcome.token)
        else:
            self._settler.add(outcome)
        self._shared.holds.note(work, outcome)
        # only now: neither a hook nor a logging set-up that raises may keep an outcome from the store
        for layer in self._shared.middleware:
            layer.tell(work.context, outcome)
        try:
            tell(work, outcome, said)
        except Exception as error:  # noqa: BLE001 - the application's filters and record factories may raise anything
            sys.stderr.write(f"headrace: the outcome of job {work.job.id} could not be logged: {error!r}\n")

    async def look(self, work: Work, ending: endings.Ending) -> None:
        """Ask the store whether the transaction in which its handler completed it was committed."""
        work.interruption = ""
        late = asyncio.current_task()
        self.late.add(late)
        try:
            done = await committed(work, self._shared)
        finally:
            self.late.discard(late)
        if done is None:
            work.leave_unreported()
        elif done:
            tell_afterwards(work, ending)
            self.report(work, self.conclude(work, endings.SUCCEEDED), stored=True)
        else:
            self.end(work, undone(work, ending))
