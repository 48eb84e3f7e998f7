"""Plans of operators who act: cancel, replay, edit, forget, prune."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.enqueue import find_holders, take_places
from headrace.stores.sqlite.settle import cancel_waiting
from headrace.stores.sqlite.text import by_id


def cancel(op: ops.Cancel, now: int) -> Plan[Literal["cancelled", "requested", "finished", "absent"]]:
    """End a waiting job, or leave a note for the worker of a running one."""
    rows = yield Statement("operate.find", {"id": op.id})
    if not rows:
        finished = yield Statement("operate.finished", {"id": op.id, "now": now})
        return "finished" if finished[0][0] else "absent"
    place, is_running = rows[0]
    if is_running:
        yield Statement("operate.ask", {"place": place})
        return "requested"
    yield from cancel_waiting(place, op, now)
    return "cancelled"


def replay(op: ops.Replay, now: int) -> Plan[ops.Replayed]:
    """Move failed jobs back to the line, each once, skipping those whose unique key another job holds (B135)."""
    answer = ops.Replayed([], {})
    for some, params in by_id(op.ids, str):
        yield from _replay_some(some, params | {"before": op.before_us}, now, answer)
    return answer


def _replay_some(ids: Iterable[str], params: dict[str, Any], now: int, answer: ops.Replayed) -> Plan[None]:
    states: dict[str, str] = dict((yield Statement("operate.states", params)))
    ended = {row[0]: row[1:] for row in (yield Statement("operate.replayable", params))}
    states = {id: row[0] for id, row in ended.items()} | states  # a job that another program put back already
    failed = [(id, *row[1:]) for id, row in ended.items() if states[id] == State.FAILED]
    holders = yield from find_holders([(queue, key) for _, queue, _, key, _ in failed if key is not None])
    rows: list[tuple[Any, ...]] = []
    replayed: list[str] = []
    for id in ids:
        if states.get(id) != State.FAILED:
            answer.skipped[id] = f"is {states[id]}" if id in states else "absent"
            continue
        _, queue, token, key, raw = ended[id]
        holder = id if key is None else holders.setdefault((queue, key), id)
        if holder != id:
            answer.skipped[id] = f"duplicate of {holder}"
            continue
        states[id] = State.READY
        replayed.append(id)
        token = max(token + 1, now)
        rows.append((token, now, now, token, trail.replayed(raw), id))
    if rows:
        yield from _move(rows, replayed)
        answer.replayed.extend(replayed)


def _move(rows: list[tuple[Any, ...]], ids: list[str]) -> Plan[None]:
    first = yield from take_places(len(rows))
    yield Statement("operate.replay", many=[(first + n, *row) for n, row in enumerate(rows)])
    for _, params in by_id(ids, str):
        yield Statement("operate.delete_ended", params)
        yield Statement("operate.delete_gone", params)


def edit(op: ops.Edit, now: int) -> Plan[bool]:
    """Where the job is still as it was seen, or is as it shall be."""
    job = {"id": op.id, "queue": op.queue, "was": op.was, "body": op.body, "trail": op.trail}
    rows = yield Statement("operate.edit", job)
    return bool(rows)


def forget(op: ops.Forget, now: int) -> Plan[int]:
    """Delete ended jobs and the memory of their ids."""
    deleted: list[str] = []
    for _, params in by_id(op.ids, str):
        deleted += [id for (id,) in (yield Statement("operate.delete_ended", params))]
    for _, params in by_id(deleted, str):
        yield Statement("operate.delete_gone", params)
    return len(deleted)


def prune(op: ops.Prune, now: int) -> Plan[ops.Pruned]:
    """Delete what is over: tombstones, kept jobs, records, and failed jobs by age and number, the oldest first."""
    yield Statement("operate.prune_gone", {"now": now, "limit": op.limit})
    yield Statement("operate.prune_kept", {"now": now, "limit": op.limit})
    yield Statement("once.prune", {"now": now, "limit": op.limit})
    yield Statement("registers.prune", {"now": now, "limit": op.limit})
    left = yield Statement("operate.left", {"now": now})
    failed, more = yield from _prune_failed(op, now)
    return ops.Pruned(failed, more or bool(left[0][0]))


def _prune_failed(op: ops.Prune, now: int) -> Plan[tuple[int, bool]]:
    """How many went, and whether some are left that should."""
    if op.age_us is None and op.most is None:
        return 0, False
    filters = {"queue": op.queue, "task": op.task}
    before = now - op.age_us if op.age_us is not None else -1
    rows = yield Statement("operate.count_failed", {"before": before, **filters})
    total, old = rows[0]
    beyond = max(0, total - op.most) if op.most is not None else 0
    over = int(max(beyond, old))
    count = min(op.limit, over)
    if count > 0:
        yield Statement("operate.prune_failed", {"limit": count, **filters})
    return count, over > count
