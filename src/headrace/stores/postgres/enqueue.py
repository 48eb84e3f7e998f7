"""Plans of producers, and the promotion of due jobs that claims and enqueues carry with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from headrace.core import operations as ops
from headrace.errors import StoreUnavailable
from headrace.stores.contract import BATCH
from headrace.stores.plan import Load, Plan, Statement

COPIED = 100  # from so many on, jobs are copied in
NEAR = len("01932c07-20")  # what ids (UUIDv7) that are made within a quarter of a second have in common
COLUMNS = ("text", "text", "text", "int4", *["int8"] * 5, "bool", "text", "bytea")
TRIES = 10  # looks at a unique key that is free whenever we look and taken whenever we write

Answers = dict[str, ops.Enqueued]

_kind = attrgetter("queue", "task", "priority", "delay_us", "due_us", "derived")


def enqueue(op: ops.Enqueue, now: int | None, *, promoting: bool = True) -> Plan[list[ops.Enqueued]]:
    """Store what is new, in one statement, which needs no transaction unless its jobs might have to be looked at again.

    Many jobs without unique keys are copied in; where one of them is known, they all go the other way.

    `promoting`: due jobs of the same queues become ready first, so that they are not overtaken.
    """
    if (
        len(op.jobs) == 1
        and op.jobs[0].unique is None
        and (yield from _store_one(op.jobs[0], now, promoting=promoting))
    ):
        return [ops.Enqueued("new", op.jobs[0].id)]
    runs = list(_runs(op.jobs))
    keyless = all(job.unique is None for job in op.jobs)
    copying = promoting and keyless and len(op.jobs) >= COPIED
    alone = len(runs) <= 1 and (len(op.jobs) == 1 or keyless) and not copying
    promote = sorted({job.queue for job in op.jobs}) if promoting else []
    answers: list[ops.Enqueued] = []
    for jobs in runs:
        found: Answers = {}
        if copying and (yield from _copy(jobs, now, promote)):
            answers += [ops.Enqueued("new", job.id) for job in jobs]
            promote = []
            continue
        yield from _store(jobs, now, promote, found, alone=alone)
        answers += [found[job.id] for job in jobs]
        promote = []
    return answers


def _store_one(job: ops.NewJob, now: int | None, *, promoting: bool) -> Plan[bool]:
    """Store a job in the common case, that nothing is in its way; else nothing is done."""
    params = {
        "now": now,
        "promoting": promoting,
        "id": job.id,
        "queue": job.queue,
        "task": job.task,
        "priority": job.priority,
        "delay_us": max(0, job.delay_us),
        "at_us": job.due_us,
        "derived": job.derived,
        "body": job.body,
    }
    return bool((yield Statement("enqueue.one", params, alone=True)))


def _runs(jobs: Sequence[ops.NewJob]) -> Iterator[list[ops.NewJob]]:
    """Steps of at most `BATCH` jobs, none with the same id twice: a later one is answered by what the earlier did."""
    if len({job.id for job in jobs}) == len(jobs) <= BATCH:
        yield list(jobs)
        return
    run: list[ops.NewJob] = []
    ids: set[str] = set()
    for job in jobs:
        if job.id in ids or len(run) == BATCH:
            yield run
            run, ids = [], set()
        run.append(job)
        ids.add(job.id)
    if run:
        yield run


def _copy(jobs: Sequence[ops.NewJob], now: int | None, promote: list[str]) -> Plan[bool]:
    """Store jobs the quick way, which is only for ids that are all new; else none is stored.

    One that comes and goes between the look and the copy is taken back by the table's trigger `headrace_undo_ended`.
    """
    ids = [job.id for job in jobs]
    first, last = min(ids), max(ids)
    near = first[:NEAR] == last[:NEAR]
    params = {"now": now, "promote": promote, "most": BATCH, "first": first, "last": last if near else first}
    moment, unheard = (yield Statement("enqueue.look", params))[0]
    if not (near and unheard) and (yield Statement("enqueue.heard_of", {"ids": ids}))[0][0]:
        return False
    stored: bool = yield Load("enqueue.copy", COLUMNS, _groups(jobs, moment))
    return stored


def _groups(jobs: Sequence[ops.NewJob], now: int) -> list[tuple[tuple[Any, ...], list[tuple[Any, Any]]]]:
    """Jobs that follow each other and differ in nothing but their ids and bodies, as most of a call do."""
    groups = []
    last: tuple[Any, ...] | None = None
    rows: list[tuple[Any, Any]] = []
    for job in jobs:
        kind = _kind(job)
        if kind != last:
            last, rows = kind, []
            groups.append((_shared(job, now), rows))
        rows.append((job.id, job.body))
    return groups


def _shared(job: ops.NewJob, now: int) -> tuple[Any, ...]:
    due = job.due_us if job.due_us is not None else now + max(0, job.delay_us)
    state = "ready" if due <= now else "scheduled"
    return job.queue, job.task, state, job.priority, now, now, now, due, max(now, due), job.derived


def _store(
    jobs: Sequence[ops.NewJob], now: int | None, promote: list[str], answers: Answers, *, alone: bool
) -> Plan[None]:
    """Store jobs until it is known of each what became of it. A key may come free between two looks at it."""
    left = jobs
    for _ in range(TRIES):
        params = {"now": now, "promote": promote, "most": BATCH} | _columns(left)
        moment, count, stored, explained = (yield Statement("enqueue.store", params, alone=alone))[0]
        new = {job.id for job in left} if count == len(left) else set(stored or ())
        for id, known, holder in explained or ():
            answers[id] = ops.Enqueued("exists", id) if known else ops.Enqueued("duplicate", holder)
        for job in left:
            if job.id in new:
                answers[job.id] = ops.Enqueued("new", job.id)
            elif job.unique is None:  # only its own id can have been in the way
                answers.setdefault(job.id, ops.Enqueued("exists", job.id))
        if unclear := [job for job in left if job.id not in answers]:
            yield from _explain(unclear, moment, answers, alone=alone)
        left = [job for job in left if job.id not in answers]
        promote = []
        if not left:
            return
    raise StoreUnavailable(f"unique key {left[0].unique!r} of queue {left[0].queue!r} changes hands too quickly")


def _explain(jobs: Sequence[ops.NewJob], moment: int, answers: Answers, *, alone: bool) -> Plan[None]:
    params = {
        "now": moment,
        "ids": [job.id for job in jobs],
        "queues": [job.queue for job in jobs],
        "keys": [job.unique for job in jobs],
    }
    for id, _, known, holder in (yield Statement("enqueue.why", params, alone=alone)):
        if known:
            answers[id] = ops.Enqueued("exists", id)
        elif holder is not None:
            answers[id] = ops.Enqueued("duplicate", holder)


def _columns(jobs: Sequence[ops.NewJob]) -> dict[str, list[Any]]:
    return {
        "ids": [job.id for job in jobs],
        "queues": [job.queue for job in jobs],
        "tasks": [job.task for job in jobs],
        "priorities": [job.priority for job in jobs],
        "delays": [job.delay_us for job in jobs],
        "dues": [job.due_us for job in jobs],
        "keys": [job.unique for job in jobs],
        "untils": [job.unique_until for job in jobs],
        "lifetimes": [job.unique_us for job in jobs],
        "derived": [job.derived for job in jobs],
        "bodies": [job.body for job in jobs],
    }


def promote(op: ops.Promote, now: int | None) -> Plan[int]:
    """Make due jobs ready, for those who only count them."""
    return (yield from promote_due(op.queues, now, op.limit))


def promote_due(queues: Sequence[str], now: int | None, limit: int) -> Plan[int]:
    """Make at most `limit` due jobs of these queues ready, earliest first."""
    params = {"now": now, "queues": list(dict.fromkeys(queues)), "most": limit}
    rows = yield Statement("enqueue.promote", params, alone=True)
    return int(rows[0][0])
