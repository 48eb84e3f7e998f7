"""What operators look at: one job, pages of jobs, queues, workers. Nothing here changes a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.errors import ConfigError
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import records
from headrace.stores.redis.common import Common


def get(store: Common, op: ops.Get) -> Plan[ops.JobView | None]:
    """One job, looked for in all queues unless there is a hint."""
    for queue in (yield from store.known_queues(op.queue)):
        views = yield from job_views(store, queue, [op.id], bodies=True)
        if views:
            return views[0]
    return None


def job_views(
    store: Common, queue: str, ids: Sequence[str | bytes], *, bodies: bool = False, as_stored: bool = False
) -> Plan[list[ops.JobView]]:
    """Those of the ids that are in this queue, in order. `as_stored`: a due job is scheduled until it is promoted."""
    found: list[list[Any]] = []
    now = 0
    for start in range(0, len(ids), BATCH):
        args = (store.moment(), "1" if bodies else "0", *ids[start : start + BATCH])
        answer = yield Call("views", store.keys.of(queue), args)
        now = -1 if as_stored else int(answer[0])
        found += [row for row in answer[1:] if row]
    running: list[bytes] = [row[0] for row in found if row[1] == b"running"]
    holders: dict[bytes, str] = {}
    if running:
        holders = yield from store.holders(queue, running)
    return [records.view(queue, row, now, holders.get(row[0]), bodies=bodies) for row in found]


class Entry(msgspec.Struct, frozen=True, order=True):
    """A place in a list: sorted by score, then id."""

    score: int
    id: bytes  # as it stands there: in what another program wrote it need not be text
    queue: str


def page(
    store: Common, queue: str, name: str, after: Entry | None, limit: int, *, newest: bool = False
) -> Plan[tuple[list[Entry], int, int]]:
    """At most `limit` entries of a list behind `after`, the store's now, and how many there are in all."""
    position = (str(after.score), after.id) if after else ("", b"")
    args = (store.moment(), name, "1" if newest else "0", *position, str(limit))
    answer = yield Call("page", store.keys.of(queue), args)
    rows = answer[2:]
    entries = [Entry(records.number(rows[at + 1]), rows[at], queue) for at in range(0, len(rows), 2)]
    return entries, int(answer[0]), answer[1]


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a listing goes on: the list and its last entry."""

    name: str
    after: Entry | None


def list_jobs(store: Common, op: ops.List) -> Plan[ops.Page]:
    """A page, merged from all queues. Positions are scores and ids, so pages stay true while jobs come and go."""
    queues = yield from store.known_queues(op.queue)
    names = ["ready", "unpromoted"] if op.state is State.READY else [op.state.value]
    cursor = _read_cursor(op, names)
    jobs: list[ops.JobView] = []
    while True:
        entries, complete = yield from _merged(store, op, queues, cursor)
        for entry, job in (yield from _matching(store, op, entries)):
            if len(jobs) == op.limit:
                return ops.Page(jobs, _write_cursor(cursor))
            jobs.append(job)
            cursor = _Cursor(cursor.name, entry)
        if not complete:
            cursor = _Cursor(cursor.name, entries[-1])
        elif cursor.name != names[-1]:
            cursor = _Cursor(names[-1], None)
        else:
            return ops.Page(jobs, None)


def _read_cursor(op: ops.List, names: list[str]) -> _Cursor:
    if op.cursor is None:
        return _Cursor(names[0], None)
    try:
        cursor = msgspec.json.decode(op.cursor, type=_Cursor)
    except msgspec.DecodeError as error:
        raise ConfigError(f"cursor is {op.cursor!r}: hand back the one of the page before") from error
    if cursor.name not in names:
        raise ConfigError(f"cursor belongs to a listing of {cursor.name} jobs: use it with the same filters")
    return cursor


def _write_cursor(cursor: _Cursor) -> str:
    return msgspec.json.encode(cursor).decode()


def _merged(store: Common, op: ops.List, queues: list[str], cursor: _Cursor) -> Plan[tuple[list[Entry], bool]]:
    """The next entries of all queues in one order, and whether these were the last."""
    size = min(BATCH, op.limit + 1) if op.task is None and op.reason is None else BATCH
    newest = op.state in TERMINAL
    entries: list[Entry] = []
    complete = True
    for queue in queues:
        some, _, _ = yield from page(store, queue, cursor.name, cursor.after, size, newest=newest)
        complete = complete and len(some) < size
        entries += some
    entries.sort(reverse=newest)
    return (entries, True) if complete else (entries[:size], False)


def _matching(store: Common, op: ops.List, entries: list[Entry]) -> Plan[list[tuple[Entry, ops.JobView]]]:
    """The jobs behind the entries that are still in that state and pass the filters."""
    views: dict[tuple[str, str], ops.JobView] = {}
    for queue in {entry.queue for entry in entries}:
        ids = [entry.id for entry in entries if entry.queue == queue]
        some = yield from job_views(store, queue, ids, bodies=op.bodies)
        views |= {(queue, view.id): view for view in some}
    found = ((entry, views.get((entry.queue, records.text(entry.id)))) for entry in entries)
    return [
        (entry, view)
        for entry, view in found
        if view is not None
        and view.state is op.state
        and op.task in (None, view.task)
        and op.reason in (None, view.reason)
    ]


def queues(store: Common, op: ops.Queues) -> Plan[list[ops.QueueView]]:
    """The counts of all queues that ever had a job."""
    views = []
    for queue in (yield from store.known_queues()):
        row = yield Call("counts", store.keys.of(queue), (store.moment(),))
        known, ready, scheduled, running, parked, failed, oldest_ready, oldest_running = row
        if known:
            oldest = [records.number(moment) if moment else None for moment in (oldest_ready, oldest_running)]
            views.append(ops.QueueView(queue, ready, scheduled, running, parked, failed, *oldest))
    return views


def workers(store: Common, op: ops.Workers) -> Plan[list[ops.WorkerView]]:
    """A row per worker and queue."""
    views = []
    for queue in (yield from store.known_queues()):
        flat = yield Call("ZRANGE", (store.keys.one(queue, "workers"),), ("0", "-1", "WITHSCORES"))
        names = [records.text(name) for name in flat[::2]]
        if not names:
            continue
        counts = yield Call("holders", tuple(store.keys.held(queue, name) for name in names))
        views += [
            ops.WorkerView(name, queue, records.number(lease), held)
            for name, lease, held in zip(names, flat[1::2], counts, strict=True)
        ]
    return sorted(views, key=lambda view: (view.worker, view.queue or ""))
