"""The whole model: the operations that change it, those that only look, and `apply`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headrace.core import operations as ops
from headrace.core.once_records import LookOnce, OnceView
from headrace.core.parking import LookParked, ParkedFor
from headrace.core.registers import LookRegisters, RegisterView
from headrace.core.states import TERMINAL, State
from headrace.stores.memory.changes import Job
from headrace.stores.memory.operate import Operating


class Model(Operating):
    """The state of a store; `apply` is atomic under the driver's lock."""

    def apply(self, operation: ops.Operation[Any], now: int) -> Any:
        """Carry out `operation` at `now`."""
        method = getattr(self, "_" + type(operation).__name__.lower())
        return method(operation, now)

    def _get(self, op: ops.Get, now: int) -> ops.JobView | None:
        job = self.jobs.get(op.id)
        return self._view(job, now, body=True) if job else None

    def _view(self, job: Job, now: int, *, body: bool) -> ops.JobView:
        due = job.state == State.SCHEDULED and job.due_us <= now
        return ops.JobView(
            job.new.id,
            job.new.queue,
            job.new.task,
            State.READY if due else job.state,
            job.new.priority,
            job.token,
            job.created_us,
            job.due_us,
            job.base_us,
            finished_us=job.finished_us,
            claimed_us=job.claimed_us,
            worker=job.worker or None,
            reason=job.reason,
            unique=job.new.unique,
            cancel=job.cancel,
            trail=job.trail,
            body=job.new.body if body else None,
        )

    def _list(self, op: ops.List, now: int) -> ops.Page:
        views = [self._view(job, now, body=op.bodies) for job in sorted(self.jobs.values(), key=lambda job: job.order)]
        matching = [
            view
            for view in views
            if view.state == op.state
            and op.queue in (None, view.queue)
            and op.task in (None, view.task)
            and op.reason in (None, view.reason)
        ]
        if op.state in TERMINAL:
            matching.sort(key=lambda view: (view.finished_us or 0, view.id), reverse=True)
        start = int(op.cursor or 0)
        end = start + op.limit
        return ops.Page(matching[start:end], str(end) if end < len(matching) else None)

    def _lookonce(self, op: LookOnce, now: int) -> OnceView | None:
        return self.records.look(op)

    def _lookregisters(self, op: LookRegisters, now: int) -> list[RegisterView]:
        return self.registers.look(op, now)

    def _lookparked(self, op: LookParked, now: int) -> list[ParkedFor]:
        counts = Counter((queue, job.reason) for queue in set(op.queues) for job in self._parked(queue))
        return sorted(ParkedFor(*what, jobs if op.counting else None) for what, jobs in counts.items())

    def _queues(self, op: ops.Queues, now: int) -> list[ops.QueueView]:
        return [self._queue(name, now) for name in sorted(self.queues)]

    def _queue(self, name: str, now: int) -> ops.QueueView:
        views = [self._view(job, now, body=False) for job in self.jobs.values() if job.new.queue == name]
        count = {state: sum(view.state == state for view in views) for state in State}
        ready = [max(view.token, view.due_us) for view in views if view.state == State.READY]
        running = [view.claimed_us or now for view in views if view.state == State.RUNNING]
        return ops.QueueView(
            name,
            count[State.READY],
            count[State.SCHEDULED],
            count[State.RUNNING],
            count[State.PARKED],
            count[State.FAILED],
            min(ready, default=None),
            min(running, default=None),
        )

    def _workers(self, op: ops.Workers, now: int) -> list[ops.WorkerView]:
        return [
            ops.WorkerView(name, None, row.lease_until_us, len(self._held_by(name)))
            for name, row in sorted(self.workers.items())
        ]

    def _inspect(self, op: ops.Inspect, now: int) -> list[ops.Finding]:
        return [
            ops.Finding(
                "warning", "durability", "jobs live in this process and end with it", "use sqlite:///FILE or a server"
            )
        ]
