"""Plans of operators who look: one job, pages of jobs, counts, workers."""

from __future__ import annotations

import math
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.stores.plan import Plan, Statement

STATE, CANCEL, REST = 3, 14, 15  # where these stand among the fields of a `JobView`; the rest are blobs
TEXTS = {0, 1, 2, 11, 12, 13}
STATES = {state.value for state in State}
PAGES = {
    State.READY: "look.ready",
    State.SCHEDULED: "look.scheduled",
    State.RUNNING: "look.running",
    State.PARKED: "look.parked",
}
FIRST_LIVE = (2**62, -1)  # before every (priority, place)
FIRST_ENDED = (2**62, "")  # after every (finished, id)


def get(op: ops.Get, now: int) -> Plan[ops.JobView | None]:
    """One job, wherever it stands."""
    rows = yield Statement("look.job", {"id": op.id, "now": now})
    # a state that is none of ours: another program's row, and no job
    return _view(rows[0]) if rows and rows[0][STATE] in STATES else None


def _view(row: tuple[Any, ...]) -> ops.JobView:
    """SQLite keeps whatever is written to a column. What is of no kind of ours must not hide the job, or its page."""
    fields: list[Any] = [
        value if value is None or place >= REST else _text(value) if place in TEXTS else _number(value)
        for place, value in enumerate(row)
        if place != STATE
    ]
    fields.insert(STATE, State(row[STATE]))
    fields[CANCEL] = bool(fields[CANCEL])
    return ops.JobView(*fields)


def _text(value: object) -> str:
    return value if type(value) is str else value.decode(errors="replace") if type(value) is bytes else str(value)


def _number(value: object) -> int:
    if type(value) is int:
        return value
    return int(value) if type(value) is float and math.isfinite(value) else 0


def page(op: ops.List, now: int) -> Plan[ops.Page]:
    """A page in one state; the cursor is the position of its last job, so that pages do not shift under changes."""
    filters = {"queue": op.queue, "task": op.task, "reason": op.reason, "bodies": op.bodies, "limit": op.limit + 1}
    if op.state in TERMINAL:
        finished, id = _ended_cursor(op.cursor)
        params = {"state": op.state.value, "finished_us": finished, "id": id}
        rows = yield Statement("look.ended", params | filters)
        views = [_view(row) for row in rows]
        ends = [f"{view.finished_us}:{view.id}" for view in views]
    else:
        priority, place = _live_cursor(op.cursor)
        params = {"priority": priority, "place": place, "now": now}
        rows = yield Statement(PAGES[op.state], params | filters)
        views = [_view(row[:-1]) for row in rows]
        ends = [f"{view.priority}:{row[-1]}" for view, row in zip(views, rows, strict=True)]
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
    priority, _, place = cursor.partition(":")
    return int(priority), int(place)


def queues(op: ops.Queues, now: int) -> Plan[list[ops.QueueView]]:
    """Counts by state, each from an index of its own."""
    names = yield Statement("look.queues")
    ready = _by_queue((yield Statement("look.count_ready")))
    scheduled = _by_queue((yield Statement("look.count_scheduled", {"now": now})))
    running = _by_queue((yield Statement("look.count_running")))
    parked = _by_queue((yield Statement("look.count_parked")))
    failed = _by_queue((yield Statement("look.count_failed")))
    views = []
    for name in dict.fromkeys(_text(name) for (name,) in names):
        waiting, since = ready.get(name, (0, None))
        later, due, due_since = scheduled.get(name, (0, 0, None))
        busy, claimed = running.get(name, (0, None))
        oldest = min((moment for moment in (since, due_since) if moment is not None), default=None)
        held, lost = parked.get(name, (0,))[0], failed.get(name, (0,))[0]
        views.append(ops.QueueView(name, waiting + due, later - due, busy, held, lost, oldest, claimed))
    return views


def _by_queue(rows: list[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {row[0]: row[1:] for row in rows}


def workers(op: ops.Workers, now: int) -> Plan[list[ops.WorkerView]]:
    """One row per worker, whatever its queues."""
    rows = yield Statement("look.workers")
    return [ops.WorkerView(_text(worker), None, _number(until), held) for worker, until, held in rows]
