"""Plans of operators who look: one job, pages of jobs, counts, workers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.stores.mysql.text import raw, text
from headrace.stores.plan import Plan, Statement

STATE, CANCEL = 3, 14  # where these stand among the fields of a `JobView`
TEXTS = (0, 1, 2, 11, 12, 13)
STATES = {state.value for state in State}
FIRST_LIVE = (-(2**62), -(2**62))  # before every (turn, place)
LAST_MOMENT = 2**62

Row = tuple[Any, ...]


def get(op: ops.Get, now: int) -> Plan[ops.JobView | None]:
    """One job, wherever it stands."""
    rows = yield Statement("look.job", {"id": raw(op.id), "now": now})
    # a state that is none of ours: another program's row, and no job
    return _view(rows[0]) if rows and text(rows[0][STATE]) in STATES else None


def _view(row: Row) -> ops.JobView:
    fields = list(row)
    for place in TEXTS:
        if fields[place] is not None:
            fields[place] = fields[place].decode(errors="replace") if place else text(fields[place])
    fields[STATE] = State(text(fields[STATE]))
    fields[CANCEL] = bool(fields[CANCEL])
    return ops.JobView(*fields)


def page(op: ops.List, now: int) -> Plan[ops.Page]:
    """A page in one state; the cursor is the position of its last job, so that pages do not shift under changes."""
    filters: dict[str, Any] = {
        name: None if value is None else raw(value)
        for name, value in (("queue", op.queue), ("task", op.task), ("reason", op.reason))
    }
    filters |= {"bodies": int(op.bodies), "limit": max(0, op.limit) + 1, "now": now, "state": raw(op.state.value)}
    if op.state in TERMINAL:
        rows = yield Statement("look.ended", filters | _ended_cursor(op.cursor))
        views = [_view(row) for row in rows]
        ends = [f"{view.finished_us}:{view.id}" for view in views]
    else:
        rows = yield from _live(op, filters | _live_cursor(op.cursor))
        views = [_view(row[:-2]) for row in rows]
        ends = [f"{turn}:{place}" for *_, turn, place in rows]
    more = len(views) > op.limit > 0
    return ops.Page(views[: op.limit], ends[op.limit - 1] if more else None)


def _live(op: ops.List, params: dict[str, Any]) -> Plan[list[Row]]:
    """Each queue gives its first few ready jobs from the index, so that a page costs the same at any depth."""
    rows: list[Row]
    if op.state is State.SCHEDULED:
        rows = yield Statement("look.scheduled", params)
        return rows
    if op.state is not State.READY:
        rows = yield Statement("look.other", params)
        return rows
    names = (
        [params["queue"]] if op.queue is not None else [name for (name,) in (yield Statement("look.waiting_queues"))]
    )
    found: list[Row] = []
    for name in names:
        found += yield Statement("look.ready", params | {"queue": name})
        found += yield Statement("look.due", params | {"queue": name})
    return sorted(found, key=lambda row: row[-2:])[: params["limit"]]


def _ended_cursor(cursor: str | None) -> dict[str, Any]:
    """`first`: the id does not count yet, for no id comes after all others."""
    if cursor is None:
        return {"finished_us": LAST_MOMENT, "id": b"", "first": 1}
    finished, _, id = cursor.partition(":")
    return {"finished_us": int(finished), "id": raw(id), "first": 0}


def _live_cursor(cursor: str | None) -> dict[str, int]:
    if cursor is None:
        return dict(zip(("turn", "place"), FIRST_LIVE, strict=True))
    turn, _, place = cursor.partition(":")
    return {"turn": int(turn), "place": int(place)}


def queues(op: ops.Queues, now: int) -> Plan[list[ops.QueueView]]:
    """Counts by state, each from an index; a queue is known by its jobs, or by an earlier enqueue."""
    counts: dict[bytes, dict[str, tuple[int, int | None]]] = defaultdict(dict)
    for kind, name, count, oldest in (yield Statement("look.queues", {"now": now})):
        counts[name][text(kind)] = (count, oldest)
    none = (0, None)
    views = []
    for name in sorted(counts):
        of = counts[name]
        ready, since = of.get("ready", none)
        due, due_since = of.get("due", none)
        running, claimed = of.get("running", none)
        oldest = min((moment for moment in (since, due_since) if moment is not None), default=None)
        scheduled, parked, failed = (of.get(kind, none)[0] for kind in ("scheduled", "parked", "failed"))
        views.append(ops.QueueView(text(name), ready + due, scheduled, running, parked, failed, oldest, claimed))
    return views


def workers(op: ops.Workers, now: int) -> Plan[list[ops.WorkerView]]:
    """One row per worker, whatever its queues."""
    rows = yield Statement("look.workers")
    return [ops.WorkerView(text(worker), None, until, held) for worker, until, held in rows]
