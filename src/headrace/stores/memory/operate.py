"""The operations of operators that change the model, and those of whoever holds jobs back."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.parking import Unpark
from headrace.core.registers import Amend
from headrace.core.states import TERMINAL, State
from headrace.stores.memory.changes import Changes, Job
from headrace.stores.memory.registers import Registers


class Operating(Changes):
    """One method per operation."""

    def __init__(self) -> None:
        super().__init__()
        self.registers = Registers()

    def _amend(self, op: Amend, now: int) -> list[object]:
        return self.registers.amend(op, now)

    def _cancel(self, op: ops.Cancel, now: int) -> str:
        job = self.jobs.get(op.id)
        if job is None:
            return "finished" if self.gone.get(op.id, (0, 0))[0] > now else "absent"
        if job.state in TERMINAL:
            return "finished"
        if job.state == State.RUNNING:
            job.cancel = True
            return "requested"
        job.reason = "cancelled"
        self._end(job, State.CANCELLED, now, op.keep_us)
        return "cancelled"

    def _replay(self, op: ops.Replay, now: int) -> ops.Replayed:
        replayed: list[str] = []
        skipped: dict[str, str] = {}
        for id in op.ids:
            problem = self._replay_one(id, now, op.before_us)
            if problem:
                skipped[id] = problem
            else:
                replayed.append(id)
        return ops.Replayed(replayed, skipped)

    def _replay_one(self, id: str, now: int, before_us: int) -> str:
        job = self.jobs.get(id)
        if job is None:
            return "absent"
        if job.state != State.FAILED:
            return f"is {job.state.value}"
        if (job.finished_us or 0) >= before_us:
            return "is failed again"
        if job.new.unique is not None:
            holder = self._holder(job.new.queue, job.new.unique)
            if holder is not None:
                return f"duplicate of {holder}"
            self.keys[job.new.queue, job.new.unique] = (id, now + job.new.unique_us)
        self.gone.pop(id, None)
        job.state, job.token, job.order = State.READY, max(job.token + 1, now), self._next_order(job.new)
        job.base_us = job.due_us = now
        job.trail, job.finished_us, job.reason = trail.replayed(job.trail), None, ""
        return ""

    def _edit(self, op: ops.Edit, now: int) -> bool:
        job = self.jobs.get(op.id)
        if (
            job is None
            or job.state != State.FAILED
            or job.new.queue != op.queue
            or job.new.body not in (op.was, op.body)
        ):
            return False
        job.new = replace(job.new, body=op.body)
        job.trail = op.trail
        return True

    def _unpark(self, op: Unpark, now: int) -> int:
        left = op.limit
        for queue in dict.fromkeys(op.queues):
            parked = [job for job in self._parked(queue) if job.reason == op.reason]
            for job in sorted(parked, key=lambda job: job.order)[:left]:
                job.state = State.READY
                left -= 1
        return op.limit - left

    def _parked(self, queue: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == State.PARKED and job.new.queue == queue]

    def _forget(self, op: ops.Forget, now: int) -> int:
        found = [id for id in dict.fromkeys(op.ids) if id in self.jobs and self.jobs[id].state in TERMINAL]
        for id in found:
            del self.jobs[id]
            self.gone.pop(id, None)
        return len(found)

    def _prune(self, op: ops.Prune, now: int) -> ops.Pruned:
        kept = [
            (job.keep_until_us, id)
            for id, job in self.jobs.items()
            if job.keep_until_us is not None and job.keep_until_us <= now
        ]
        gone = [id for id, (until, _) in self.gone.items() if until <= now]
        keys = [key for key, (id, until) in self.keys.items() if id not in self.jobs and until <= now]
        old = self._old_failed(op, now)
        for _, id in sorted(kept)[: op.limit]:
            del self.jobs[id]
        for id in gone[: op.limit]:
            del self.gone[id]
        for key in keys[: op.limit]:
            del self.keys[key]
        for id in old[: op.limit]:
            del self.jobs[id]
        more = any(len(over) > op.limit for over in (kept, gone, keys, old))
        more = self.records.prune(op.limit, now) or more
        more = self.registers.prune(op.limit, now) or more
        return ops.Pruned(len(old[: op.limit]), more)

    def _old_failed(self, op: ops.Prune, now: int) -> list[str]:
        """Failed jobs that are too old or too many, the oldest first."""
        failed = sorted(
            (
                job
                for job in self.jobs.values()
                if job.state == State.FAILED and op.queue in (None, job.new.queue) and op.task in (None, job.new.task)
            ),
            key=lambda job: (job.finished_us or 0, job.new.id),
        )
        beyond = max(0, len(failed) - op.most) if op.most is not None else 0
        return [
            job.new.id
            for place, job in enumerate(failed)
            if place < beyond or (op.age_us is not None and (job.finished_us or 0) <= now - op.age_us)
        ]
