"""Plans of producers, and the promotion of due jobs that claims and enqueues carry with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.text import listed, readable
from headrace.stores.statements import batches

Tombstones = dict[str, tuple[int, int]]  # id -> (until, last token)


def enqueue(op: ops.Enqueue, now: int) -> Plan[list[ops.Enqueued]]:
    """Decide about every job by what is known of its id and key, then store the new ones."""
    queues = sorted({job.queue for job in op.jobs})
    yield from promote_due(queues, now)
    known, gone = yield from _remembered([job.id for job in op.jobs])
    holders = yield from find_holders([(job.queue, job.unique) for job in op.jobs if job.unique is not None])
    answers = [_decide(job, now, known, gone, holders) for job in op.jobs]
    new = [job for job, answer in zip(op.jobs, answers, strict=True) if answer.status == "new"]
    if new:
        yield Statement("enqueue.queues", {"queues": listed(sorted({job.queue for job in new}))})
        yield from _store(new, now, gone)
    return answers


def _remembered(ids: Sequence[str]) -> Plan[tuple[set[str], Tombstones]]:
    known: set[str] = set()
    gone: Tombstones = {}
    for some in batches(ids):
        params = {"ids": listed(some)}
        known.update(id for (id,) in (yield Statement("enqueue.known", params)))
        for id, until, token in (yield Statement("enqueue.gone", params)):
            gone[id] = (until, token)
    return known, gone


def find_holders(keys: Sequence[tuple[str, str]]) -> Plan[dict[tuple[str, str], str]]:
    """Who holds which of these (queue, unique key). Costs nothing where no job has one."""
    holders: dict[tuple[str, str], str] = {}
    for some in batches([pair for pair in keys if "\x00" not in pair[1]]):
        for queue, key, id in (yield Statement("enqueue.holders", {"keys": listed(some)})):
            holders[queue, key] = readable(id)
    for queue, key in (pair for pair in keys if "\x00" in pair[1]):  # of a row that another program wrote
        for (id,) in (yield Statement("enqueue.holder", {"queue": queue, "key": key})):
            holders[queue, key] = readable(id)
    return holders


def _decide(
    job: ops.NewJob, now: int, known: set[str], gone: Tombstones, holders: dict[tuple[str, str], str]
) -> ops.Enqueued:
    """The answer for one job; a new one is known, and holds its key, to the jobs that follow in the same enqueue."""
    if job.id in known or (job.id in gone and gone[job.id][0] > now):
        return ops.Enqueued("exists", job.id)
    if job.unique is not None:
        holder = holders.setdefault((job.queue, job.unique), job.id)
        if holder != job.id:
            return ops.Enqueued("duplicate", holder)
    known.add(job.id)
    return ops.Enqueued("new", job.id)


def _store(jobs: Sequence[ops.NewJob], now: int, gone: Tombstones) -> Plan[None]:
    place = (yield from take_places(len(jobs))) - 1
    for some in batches(jobs):
        rows = []
        for job in some:
            place += 1
            rows.append(_row(job, place, now, max(gone[job.id][1] + 1, now) if job.id in gone else now))
        yield Statement("enqueue.insert", many=rows)


def _row(job: ops.NewJob, place: int, now: int, token: int) -> tuple[Any, ...]:
    due = job.due_us if job.due_us is not None else now + max(0, job.delay_us)
    return (
        place,
        job.id,
        job.queue,
        job.task,
        "ready" if due <= now else "scheduled",
        job.priority,
        token,
        now,
        now,
        due,
        max(token, due),
        job.derived,
        job.unique,
        job.unique,
        job.unique_until,
        job.unique_us,
        job.body,
    )


def take_places(count: int) -> Plan[int]:
    """The first of `count` places at the end of the line."""
    rows = yield Statement("enqueue.places", {"count": count})
    last: int = rows[0][0]
    return last - count + 1


def promote(op: ops.Promote, now: int) -> Plan[int]:
    """Make due jobs ready, for those who only count them."""
    return (yield from promote_due(op.queues, now, op.limit))


def promote_due(queues: Iterable[str], now: int, limit: int = BATCH) -> Plan[int]:
    """Make at most `limit` due jobs of these queues ready, earliest first. One look where none is due."""
    names = list(queues)
    looks = yield Statement("enqueue.next_due", {"queues": listed(names)})
    return (yield from promote_from([names[key] for key, due in looks if due is not None and due <= now], now, limit))


def promote_from(queues: Iterable[str], now: int, limit: int) -> Plan[int]:
    """The same for queues that are known to have due jobs."""
    due: list[tuple[int, int]] = []
    for queue in queues:
        due += yield Statement("enqueue.due", {"queue": queue, "now": now, "limit": limit})
    due = sorted(due)[:limit]
    if due:
        first = yield from take_places(len(due))
        yield Statement("enqueue.promote", many=[(first + n, place) for n, (_, place) in enumerate(due)])
    return len(due)
