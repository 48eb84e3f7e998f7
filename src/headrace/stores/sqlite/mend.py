"""The plan that puts aside what another program wrote into the tables and no worker could be given.

It is carried out only after an operation has met such a row, so that rows of ours cost nothing.
"""

from __future__ import annotations

from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.text import is_text, listed, readable

MOST = 2**62  # beyond that a token could not grow any more


def mend(op: ops.Operation[Any], now: int) -> Plan[int]:
    """Put aside the rows that may have stopped `op`: those that run, and those it would take. Answers how many."""
    places = [place for (place,) in (yield Statement("mend.running"))]
    if isinstance(op, ops.Claim):
        for queue in op.queues:
            places += [place for (place,) in (yield Statement("mend.heads", {"queue": queue, "limit": op.limit}))]
    mended = 0
    for row in (yield Statement("mend.jobs", {"places": listed(places), "most": MOST})):
        mended += yield from _look_at(row, now)
    mended += len((yield Statement("mend.workers")))
    if new := _new_jobs(op):
        mended += len((yield Statement("mend.gone", {"ids": listed([job.id for job in new])})))
    if isinstance(op, ops.Replay):
        for id in op.ids:
            mended += yield from _straighten(id, now)
    return mended


def _new_jobs(op: ops.Operation[Any]) -> list[ops.NewJob]:
    if isinstance(op, ops.Settle):
        return [job for outcome in op.outcomes for job in outcome.then]
    return list(op.jobs) if isinstance(op, ops.Enqueue) else []


def _look_at(row: tuple[Any, ...], now: int) -> Plan[int]:
    """Put one row aside, if something is wrong with it."""
    place, id, queue, task, worker, key, raw, wrong = row
    texts = {"id": id, "queue": queue, "worker": worker}
    wrong += " ".join(name for name, text in texts.items() if not is_text(text) and name not in wrong.split())
    if not wrong:
        return 0
    name = yield from _free_id(readable(id), place)
    columns = ", ".join(wrong.split())
    message = f"another program wrote this row, and no worker can be given it: what is wrong is its {columns}"
    before = trail.decode(raw)
    mishap = trail.Mishap("error", now, before.attempts + 1, "", type="UnreadableRow", message=message)
    yield Statement("enqueue.queues", {"queues": listed([readable(queue).replace("\x00", "\\x00")])})
    aside = {
        "id": name,
        "queue": readable(queue).replace("\x00", "\\x00"),
        "task": readable(task),
        "key": None if key is None else readable(key),
        "trail": trail.encode(before.with_mishap(mishap)),
        "now": now,
        "most": MOST,
        "place": place,
    }
    yield Statement("mend.put_aside", aside)
    yield Statement("mend.remove", {"place": place})
    return 1


def _free_id(id: str, place: int) -> Plan[str]:
    """An id that can be asked for. It may be the very one of another job."""
    taken = yield Statement("mend.is_taken", {"id": id})
    return f"{id}+{place}" if taken[0][0] else id


def _straighten(id: str, now: int) -> Plan[int]:
    """A failed job that is asked to run again, and could not be moved as it stands."""
    rows = yield Statement("mend.ended", {"id": id, "most": MOST})
    if not rows:
        return 0
    queue, task, key, wrong = rows[0]
    if not wrong and all(map(is_text, (queue, task, key))):
        return 0
    straight = {"queue": readable(queue), "task": readable(task), "key": None if key is None else readable(key)}
    yield Statement("mend.straighten", {"id": id, "now": now, "most": MOST, **straight})
    return 1
