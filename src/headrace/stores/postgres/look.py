"""Plans of operators who look: one job, pages of jobs, counts, workers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.stores.plan import Plan, Statement

STATE = 3  # where it stands among the fields of a `JobView`
STATES = {state.value for state in State}
PAGES = {
    State.READY: "look.ready",
    State.SCHEDULED: "look.scheduled",
    State.RUNNING: "look.running",
    State.PARKED: "look.parked",
}
FIRST_LIVE = (-(2**31), -(2**63))  # before every (rank, place)
FIRST_ENDED = (2**63 - 1, "\U0010ffff")  # after every (finished, id)


def get(op: ops.Get, now: int | None) -> Plan[ops.JobView | None]:
    """One job, wherever it stands."""
    rows = yield Statement("look.job", {"id": op.id, "now": now}, alone=True)
    # a state that is none of ours: another program's row, and no job
    return _view(rows[0]) if rows and rows[0][STATE] in STATES else None


def _view(row: tuple[Any, ...]) -> ops.JobView:
    fields: list[Any] = list(row)
    fields[STATE] = State(row[STATE])
    return ops.JobView(*fields)


def page(op: ops.List, now: int | None) -> Plan[ops.Page]:
    """A page in one state; the cursor is the position of its last job, so that pages do not shift under changes."""
    filters = {"queue": op.queue, "task": op.task, "reason": op.reason, "bodies": op.bodies, "limit": op.limit + 1}
    if op.state in TERMINAL:
        finished, id = _ended_cursor(op.cursor)
        params: dict[str, Any] = {"state": op.state.value, "finished_us": finished, "id": id}
        rows = yield Statement("look.ended", params | filters, alone=True)
        views = [_view(row) for row in rows]
        ends = [f"{view.finished_us}:{view.id}" for view in views]
    else:
        rank, place = _live_cursor(op.cursor)
        params = {"rank": rank, "place": place, "now": now}
        rows = yield Statement(PAGES[op.state], params | filters, alone=True)
        views = [_view(row[:-1]) for row in rows]
        ends = [f"{-view.priority}:{row[-1]}" for view, row in zip(views, rows, strict=True)]
    more = len(views) > op.limit > 0
    return ops.Page(views[: op.limit], ends[op.limit - 1] if more else None)


def _ended_cursor(cursor: str | None) -> tuple[int, str]:
    if cursor is None:
        return FIRST_ENDED
    finished, _, id = cursor.partition(":")
    return int(finished), id


def _live_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return FIRST_LIVE
    rank, _, place = cursor.partition(":")
    return int(rank), int(place)


def queues(op: ops.Queues, now: int | None) -> Plan[list[ops.QueueView]]:
    """Counts by state, each from an index of its own; a queue is known by its jobs, or by an earlier claim."""
    counts: dict[str, dict[str, tuple[int, int | None]]] = defaultdict(dict)
    for kind, name, count, oldest in (yield Statement("look.queues", {"now": now}, alone=True)):
        counts[name][kind] = (count, oldest)
    none = (0, None)
    views = []
    for name in sorted(counts):
        of = counts[name]
        ready, since = of.get("ready", none)
        due, due_since = of.get("due", none)
        running, claimed = of.get("running", none)
        oldest = min((moment for moment in (since, due_since) if moment is not None), default=None)
        scheduled, parked, failed = (of.get(kind, none)[0] for kind in ("scheduled", "parked", "failed"))
        views.append(ops.QueueView(name, ready + due, scheduled, running, parked, failed, oldest, claimed))
    return views


def workers(op: ops.Workers, now: int | None) -> Plan[list[ops.WorkerView]]:
    """One row per worker, whatever its queues."""
    rows = yield Statement("look.workers", alone=True)
    return [ops.WorkerView(worker, None, until, held) for worker, until, held in rows]
