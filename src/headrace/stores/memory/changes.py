"""The state of the model, and the operations of producers, workers and operators that change it."""

from __future__ import annotations

import msgspec

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.once_records import EndOnce, OnceTaken, RenewOnce, TakeOnce
from headrace.core.states import LIVE, TERMINAL, State
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.memory.once import Records


class Job(msgspec.Struct):
    """One job as the model keeps it."""

    new: ops.NewJob
    state: State
    token: int
    order: tuple[int, int]  # (-priority, place): the smallest runs first
    created_us: int
    base_us: int
    due_us: int
    trail: bytes | None = None
    worker: str = ""
    claim: int = 0
    claimed_us: int | None = None
    finished_us: int | None = None
    keep_until_us: int | None = None
    reason: str = ""
    cancel: bool = False


class Worker(msgspec.Struct):
    """A registered worker."""

    lease_until_us: int
    last_claim: int = 0


class Changes:
    """One method per operation that changes the state."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.keys: dict[tuple[str, str], tuple[str, int]] = {}  # (queue, unique key) -> (job id, lifetime's end)
        self.gone: dict[str, tuple[int, int]] = {}  # tombstones: id -> (until, last token)
        self.workers: dict[str, Worker] = {}
        self.queues: set[str] = set()
        self.place = 0
        self.records = Records(self._is_running)

    def _prepare(self, op: ops.Prepare, now: int) -> None:
        return None

    # -- producers

    def _enqueue(self, op: ops.Enqueue, now: int) -> list[ops.Enqueued]:
        self._promote_due({job.queue for job in op.jobs}, now)
        return [self._enqueue_one(job, now) for job in op.jobs]

    def _enqueue_one(self, new: ops.NewJob, now: int) -> ops.Enqueued:
        until, old_token = self.gone.get(new.id, (0, 0))
        if new.id in self.jobs or until > now:
            return ops.Enqueued("exists", new.id)
        if new.unique is not None:
            holder = self._holder(new.queue, new.unique)
            if holder is not None:
                return ops.Enqueued("duplicate", holder)
            self.keys[new.queue, new.unique] = (new.id, now + new.unique_us)
        due = new.due_us if new.due_us is not None else now + max(0, new.delay_us)
        self.queues.add(new.queue)
        self.jobs[new.id] = Job(
            new,
            State.READY if due <= now else State.SCHEDULED,
            token=max(old_token + 1, now),
            order=self._next_order(new),
            created_us=now,
            base_us=now,
            due_us=due,
        )
        return ops.Enqueued("new", new.id)

    def _holder(self, queue: str, key: str) -> str | None:
        """The live job that holds a unique key. A key whose job is gone holds nothing."""
        holder, _ = self.keys.get((queue, key), (None, 0))
        return holder if holder in self.jobs and self.jobs[holder].state in LIVE else None

    def _next_order(self, new: ops.NewJob) -> tuple[int, int]:
        self.place += 1
        return (-new.priority, self.place)

    # -- workers

    def _promote(self, op: ops.Promote, now: int) -> int:
        return self._promote_due(set(op.queues), now, op.limit)

    def _promote_due(self, queues: set[str], now: int, limit: int | None = None) -> int:
        due = sorted(
            (
                job
                for job in self.jobs.values()
                if job.state == State.SCHEDULED and job.new.queue in queues and job.due_us <= now
            ),
            key=lambda job: (job.due_us, job.order[1]),
        )
        for job in due[:limit]:
            job.state = State.READY
            job.order = self._next_order(job.new)
        return len(due[:limit])

    def _claim(self, op: ops.Claim, now: int) -> ops.Claimed:
        worker = self._seen(op.worker, now + op.lease_us)
        self._promote_due(set(op.queues), now)
        ready, jobs = self._ready(op.queues), list[Job]()
        if op.number == worker.last_claim:
            jobs = [job for job in self._held_by(op.worker) if job.claim == op.number]
        elif op.number > worker.last_claim:
            worker.last_claim = op.number
            jobs, ready = ready[: op.limit], ready[op.limit :]
            for job in jobs:
                self._take(job, op, now)
        scheduled = [
            job.due_us for job in self.jobs.values() if job.state == State.SCHEDULED and job.new.queue in op.queues
        ]
        return ops.Claimed(now, [self._claimed(job) for job in jobs], bool(ready), min(scheduled, default=None))

    def _ready(self, queues: tuple[str, ...]) -> list[Job]:
        ready = [job for job in self.jobs.values() if job.state == State.READY and job.new.queue in queues]
        return sorted(ready, key=lambda job: (queues.index(job.new.queue), job.order))

    def _take(self, job: Job, op: ops.Claim, now: int) -> None:
        job.state, job.worker, job.claim, job.claimed_us = State.RUNNING, op.worker, op.number, now
        if job.new.unique_until == "start":
            self._free(job)

    def _claimed(self, job: Job) -> ops.ClaimedJob:
        return ops.ClaimedJob(
            job.new.id, job.new.queue, job.token, job.new.body, job.trail, job.created_us, job.base_us
        )

    def _seen(self, worker: str, until: int) -> Worker:
        """Set the lease, also to an earlier moment: a clock set back must not leave one that lasts for hours."""
        row = self.workers.setdefault(worker, Worker(until))
        row.lease_until_us = until
        return row

    def _held_by(self, worker: str) -> list[Job]:
        held = [job for job in self.jobs.values() if job.state == State.RUNNING and job.worker == worker]
        return sorted(held, key=lambda job: job.order)

    def _settle(self, op: ops.Settle, now: int) -> list[bool]:
        return [self._settle_one(outcome, now) for outcome in op.outcomes]

    def _settle_one(self, outcome: ops.Outcome, now: int) -> bool:
        job = self.jobs.get(outcome.id)
        if job is None or job.state != State.RUNNING or job.token != outcome.token:
            return False
        if outcome.once is not None and not self.records.end(outcome.once, outcome.id, outcome.token, now):
            return False
        if outcome.trail is not None:
            job.trail = outcome.trail
        job.reason = outcome.reason
        if job.cancel and outcome.state not in TERMINAL:
            job.reason = "cancelled"
            self._end(job, State.CANCELLED, now, outcome.keep_us)
        elif outcome.state in TERMINAL:
            self._end(job, outcome.state, now, outcome.keep_us)
            if outcome.then:
                self._enqueue(ops.Enqueue(outcome.then), now)
        else:
            self._give_back(job, outcome.state, now + outcome.delay_us, now)
        return True

    def _give_back(self, job: Job, state: State, due: int, now: int) -> None:
        """Out of `running`: the token rises, so that whoever held the old one can change nothing any more."""
        job.token = max(job.token + 1, now)
        job.worker, job.claim, job.claimed_us = "", 0, None
        job.state = state
        if state != State.READY:
            job.due_us = due

    def _end(self, job: Job, state: State, now: int, keep_us: int) -> None:
        """The one way a job ends: frees the unique key and leaves a tombstone."""
        job.state, job.finished_us = state, now
        job.worker, job.claim, job.claimed_us, job.cancel = "", 0, None, False
        self._free(job)
        life = TOMBSTONE_DERIVED_US if job.new.derived else TOMBSTONE_US
        self.gone[job.new.id] = (now + life, job.token)
        if state == State.FAILED:
            job.keep_until_us = None
        elif keep_us > 0:
            job.keep_until_us = now + keep_us
        else:
            del self.jobs[job.new.id]

    def _free(self, job: Job) -> None:
        key = (job.new.queue, job.new.unique or "")
        if self.keys.get(key, ("", 0))[0] == job.new.id:
            del self.keys[key]

    def _beat(self, op: ops.Beat, now: int) -> ops.Beaten:
        self._seen(op.worker, now + op.lease_us)
        mine = {job.new.id: job for job in self._held_by(op.worker)}
        lost = [held for held in op.held if held.id not in mine or mine[held.id].token != held.token]
        known = {held.id for held in op.held}
        cancel = [held for held in op.held if held not in lost and mine[held.id].cancel]
        unknown = [job for job in mine.values() if job.new.id not in known and job.claim < op.open_claim]
        self._release(unknown, now)
        return ops.Beaten(now, lost, cancel, len(unknown))

    def _release(self, jobs: list[Job], now: int) -> None:
        for job in jobs:
            self._settle_one(
                ops.Outcome(
                    job.new.id,
                    job.new.queue,
                    job.token,
                    State.READY,
                    trail=trail.released(job.trail),
                    keep_us=ops.CANCELLED_KEEP_US,
                    reason="released",
                ),
                now,
            )

    def _leave(self, op: ops.Leave, now: int) -> int:
        held = self._held_by(op.worker)
        self._release(held, now)
        self.workers.pop(op.worker, None)
        return len(held)

    def _rescue(self, op: ops.Rescue, now: int) -> ops.Rescued:
        if op.not_after_us is not None and now > op.not_after_us:
            return ops.Rescued([])
        orphans: list[ops.Orphan] = []
        for worker in self._dead(op.queues, now):
            if len(orphans) < op.limit:
                orphans += self._orphans(worker)
        for orphan in orphans:
            after = trail.crashed(orphan.trail, worker=orphan.worker, now_us=now, alone=orphan.alone)
            self._settle_one(
                ops.Outcome(
                    orphan.id,
                    orphan.queue,
                    orphan.token,
                    State.READY,
                    trail=after,
                    keep_us=ops.CANCELLED_KEEP_US,
                    reason="crashed",
                ),
                now,
            )
        for worker in [name for name in self.workers if self._is_dead(name, now) and not self._held_by(name)]:
            del self.workers[worker]
        return ops.Rescued(orphans)

    def _dead(self, queues: tuple[str, ...], now: int) -> list[str]:
        """Dead workers that hold something in one of these queues."""
        running = [job for job in self.jobs.values() if job.state == State.RUNNING and job.new.queue in queues]
        return sorted({job.worker for job in running if self._is_dead(job.worker, now)})

    def _orphans(self, worker: str) -> list[ops.Orphan]:
        """All that it held, in whatever queue: a part of it would look as if it had been alone."""
        held = self._held_by(worker)
        return [
            ops.Orphan(job.new.id, job.new.queue, job.token, worker, job.trail, len(held) == 1, job.cancel)
            for job in held
        ]

    def _is_dead(self, worker: str, now: int) -> bool:
        return worker not in self.workers or self.workers[worker].lease_until_us <= now

    def _is_running(self, id: str, token: int) -> bool:
        job = self.jobs.get(id)
        return job is not None and job.state == State.RUNNING and job.token == token

    # -- once records

    def _takeonce(self, op: TakeOnce, now: int) -> list[OnceTaken]:
        return [self.records.take(claim, now) for claim in op.claims]

    def _renewonce(self, op: RenewOnce, now: int) -> bool:
        return self.records.renew(op, now)

    def _endonce(self, op: EndOnce, now: int) -> bool:
        return self.records.end(op.end, op.owner, 0, now)
