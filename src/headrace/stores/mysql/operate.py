"""Plans of operators who act: cancel, replay, edit, forget, prune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.mysql.enqueue import DRAW, draw, find_holders
from headrace.stores.mysql.once import forget as forget_once
from headrace.stores.mysql.parking import leave
from headrace.stores.mysql.registers import forget as forget_registers
from headrace.stores.mysql.settle import cancel_waiting, forget_gone
from headrace.stores.mysql.text import held, raised, raw, steps, text
from headrace.stores.plan import Plan, Statement

PLACES_LEFT = 1_000_000  # numbers drawn since; a connection that drew before these has most likely gone


def cancel(op: ops.Cancel, now: int) -> Plan[Literal["cancelled", "requested", "finished", "absent"]]:
    """End a waiting job, or leave a note for the worker of a running one."""
    id = raw(op.id)
    rows = yield Statement("operate.find", {"id": id})
    if not rows:
        finished = yield Statement("operate.finished", {"id": id, "now": now})
        return "finished" if finished[0][0] else "absent"
    state, token, _, derived = rows[0]
    if text(state) == State.RUNNING:
        yield Statement("operate.ask", {"id": id})
        return "requested"
    if text(state) == State.PARKED:
        yield leave([id])
    yield from cancel_waiting(id, (token, derived), op, now)
    return "cancelled"


def replay(op: ops.Replay, now: int) -> Plan[ops.Replayed]:
    """Move failed jobs back to the line, each once, skipping those whose unique key another job holds (B135)."""
    answer = ops.Replayed([], {})
    number = yield from draw()
    first = number * DRAW
    for some in steps(op.ids):
        yield from _replay_some(some, op.before_us, first, now, answer)
        first += len(some)
    return answer


def _replay_some(ids: Sequence[str], before: int, first: int, now: int, answer: ops.Replayed) -> Plan[None]:
    found = sorted({raw(id) for id in ids})
    states = {text(id): text(state) for id, state in (yield Statement("operate.states", {"ids": found}))}
    ended = {text(id): row for id, *row in (yield Statement("operate.replayable", {"ids": found, "before": before}))}
    states |= {id: text(row[0]) for id, row in ended.items()}
    rows: dict[str, dict[str, Any]] = {}
    keys: dict[bytes, str] = {}
    for n, id in enumerate(ids):
        if id in rows or states.get(id) != State.FAILED:
            state = State.READY.value if id in rows else states.get(id)
            answer.skipped[id] = f"is {state}" if state else "absent"
            continue
        _, queue, token, key, memory = ended[id]
        held_key = None if key is None else held(queue, key)
        if held_key is not None and keys.setdefault(held_key, id) != id:
            answer.skipped[id] = f"duplicate of {keys[held_key]}"
            continue
        rows[id] = {
            "id": raw(id),
            "place": first + n,
            "token": raised(token, now),
            "now": now,
            "trail": trail.replayed(memory),
            "held_key": held_key,
        }
    if rows:
        yield from _move(rows, keys, answer)


def _move(rows: dict[str, dict[str, Any]], keys: dict[bytes, str], answer: ops.Replayed) -> Plan[None]:
    """Insert them, see which got in, and take those out of the ended."""
    yield Statement("operate.replay", many=sorted(rows.values(), key=lambda row: (row["held_key"] or b"", row["id"])))
    got_in = dict((yield Statement("operate.replayed", {"ids": sorted(row["id"] for row in rows.values())})))
    moved = [id for id, row in rows.items() if got_in.get(row["id"]) == row["place"]]
    refused = {id: row["held_key"] for id, row in rows.items() if got_in.get(row["id"]) != row["place"]}
    holders = yield from find_holders(list(refused.values()))
    for id, key in refused.items():
        answer.skipped[id] = f"duplicate of {text(holders.get(key or b'', raw(id)))}"
    for id, first in list(answer.skipped.items()):
        # the one before it in this operation was refused as well: both name the holder
        for key, winner in keys.items():
            if winner in refused and first == f"duplicate of {winner}" and key in holders:
                answer.skipped[id] = f"duplicate of {text(holders[key])}"
    answer.replayed.extend(moved)
    if moved:
        params = {"ids": sorted(raw(id) for id in moved)}
        yield Statement("operate.delete_ended", params)
        yield Statement("operate.delete_gone", params)


def edit(op: ops.Edit, now: int) -> Plan[bool]:
    """Where the job is still as it was seen, or is as it shall be."""
    job = {"id": raw(op.id), "queue": raw(op.queue), "was": op.was, "body": op.body}
    if not (yield Statement("operate.editable", job)):
        return False
    yield Statement("operate.edit", {"id": job["id"], "body": op.body, "trail": op.trail}, mute=True)
    return True


def forget(op: ops.Forget, now: int) -> Plan[int]:
    """Delete ended jobs and the memory of their ids."""
    count = 0
    for ids in steps(sorted({raw(id) for id in op.ids})):
        ended = sorted(id for (id,) in (yield Statement("operate.ended", {"ids": ids})))
        if ended:
            yield Statement("operate.delete_ended", {"ids": ended})
            yield Statement("operate.delete_gone", {"ids": ended})
        count += len(ended)
    return count


def prune(op: ops.Prune, now: int) -> Plan[ops.Pruned]:
    """Delete what is over: tombstones, kept jobs, records, and failed jobs by age and number, the oldest first."""
    yield from forget_gone(-(2**62), now, op.limit)
    yield from forget_once(now, op.limit)
    yield from forget_registers(now, op.limit)
    yield from _delete((yield Statement("operate.old_kept", {"now": now, "limit": op.limit})))
    left = yield Statement("operate.left", {"now": now})
    failed, more = yield from _prune_failed(op, now)
    number = yield from draw()
    yield Statement("operate.old_places", {"before": number - PLACES_LEFT})
    return ops.Pruned(failed, more or bool(left[0][0]))


def _delete(rows: Sequence[tuple[bytes]]) -> Plan[int]:
    for ids in steps(sorted(id for (id,) in rows)):
        yield Statement("operate.delete_ended", {"ids": ids})
    return len(rows)


def _prune_failed(op: ops.Prune, now: int) -> Plan[tuple[int, bool]]:
    """How many went, and whether some are left that should."""
    if op.age_us is None and op.most is None:
        return 0, False
    filters = {name: None if value is None else raw(value) for name, value in (("queue", op.queue), ("task", op.task))}
    before = now - op.age_us if op.age_us is not None else -1
    rows = yield Statement("operate.count_failed", {"before": before, **filters})
    total, old = rows[0]
    beyond = max(0, total - op.most) if op.most is not None else 0
    over = max(beyond, old)
    limit = min(op.limit, over)
    if limit <= 0:
        return 0, bool(over)
    count = yield from _delete((yield Statement("operate.old_failed", {"limit": limit, **filters})))
    return count, over > count
