"""Enqueue: one script per queue, two arguments per job as long as none is delayed or unique."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import records
from headrace.stores.redis.common import Common

BYTES = 64 * 1024 * 1024  # most bytes of one step, far below what a server accepts


def enqueue(store: Common, op: ops.Enqueue) -> Plan[list[ops.Enqueued]]:
    """Store jobs, all or none per queue and step."""
    if len(op.jobs) == 1:
        return (yield from _one(store, op.jobs[0]))
    queues = {job.queue for job in op.jobs}
    yield from store.register(queues)
    if len(queues) == 1 and len(op.jobs) <= BATCH and sum(len(job.body) for job in op.jobs) <= BYTES:
        return (yield from _step(store, op.jobs))
    for job in op.jobs:  # one that is refused must be so before the first step
        store.packer.head(job)
    answers: list[ops.Enqueued | None] = [None] * len(op.jobs)
    for queue in dict.fromkeys(job.queue for job in op.jobs):
        places = [place for place, job in enumerate(op.jobs) if job.queue == queue]
        for part in _parts(op.jobs, places):
            done = yield from _step(store, tuple(op.jobs[place] for place in part))
            for place, answer in zip(part, done, strict=True):
                answers[place] = answer
    return [answer for answer in answers if answer is not None]


def _one(store: Common, job: ops.NewJob) -> Plan[list[ops.Enqueued]]:
    if job.queue not in store.registered:
        yield from store.register((job.queue,))
    if job.unique is None and job.due_us is None and job.delay_us <= 0:
        args = (store.moment(), job.id, store.packer.record(job))
        if (yield Call("enqueue_one", store.keys.for_one(job.queue), args)):
            return [ops.Enqueued("new", job.id)]
    return (yield from _step(store, (job,)))


def in_full(store: Common, jobs: tuple[ops.NewJob, ...]) -> Iterator[Any]:
    """The four arguments of each job."""
    record = store.packer.record
    return chain.from_iterable((job.id, record(job), records.when(job), records.unique(job)) for job in jobs)


def _parts(jobs: tuple[ops.NewJob, ...], places: list[int]) -> list[list[int]]:
    """Places in steps of at most BATCH jobs and BYTES bytes (one job at least)."""
    parts: list[list[int]] = []
    size = 0
    for place in places:
        length = len(jobs[place].body)
        if not parts or len(parts[-1]) == BATCH or size + length > BYTES:
            parts.append([])
            size = 0
        parts[-1].append(place)
        size += length
    return parts


def _step(store: Common, jobs: tuple[ops.NewJob, ...]) -> Plan[list[ops.Enqueued]]:
    record = store.packer.record
    args: tuple[Any, ...]
    if any(job.unique is not None or job.delay_us > 0 or job.due_us is not None for job in jobs):
        args = (store.moment(), "4", *in_full(store, jobs))
    else:
        args = (store.moment(), "2", *chain.from_iterable((job.id, record(job)) for job in jobs))
    answer = yield Call("enqueue", store.keys.of(jobs[0].queue), args)
    if answer == 1:
        return [ops.Enqueued("new", job.id) for job in jobs]
    return [_enqueued(job, code) for job, code in zip(jobs, answer, strict=True)]


def _enqueued(job: ops.NewJob, code: int | bytes) -> ops.Enqueued:
    if isinstance(code, bytes):
        return ops.Enqueued("duplicate", records.text(code))
    return ops.Enqueued("exists" if code else "new", job.id)
