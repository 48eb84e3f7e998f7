"""Plans of operators who act: cancel, replay, edit, forget, prune. Each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.settle import LIVES
from headrace.stores.statements import batches


def cancel(op: ops.Cancel, now: int | None) -> Plan[Literal["cancelled", "requested", "finished", "absent"]]:
    """End a waiting job, or leave a note for the worker of a running one."""
    rows = yield Statement("operate.find", {"id": op.id, "now": now})
    if not rows:
        finished = yield Statement("operate.finished", {"id": op.id, "now": now})
        return "finished" if finished[0][0] else "absent"
    moment, state = rows[0]
    if state == State.RUNNING:
        yield Statement("operate.ask", {"id": op.id})
        return "requested"
    yield Statement("operate.cancel", {"id": op.id, "now": moment, "keep_us": op.keep_us} | LIVES)
    return "cancelled"


def replay(op: ops.Replay, now: int | None) -> Plan[ops.Replayed]:
    """Move failed jobs back to the line, each once, skipping those whose unique key another job holds (B135)."""
    answer = ops.Replayed([], {})
    moment = (yield Statement("operate.now", {"now": now}))[0][0]
    for some in batches(op.ids):
        yield from _replay_some(some, op.before_us, moment, answer)
    return answer


def _replay_some(ids: Sequence[str], before: int, now: int, answer: ops.Replayed) -> Plan[None]:
    params = {"ids": sorted(set(ids))}
    ended = {row[0]: row[1:] for row in (yield Statement("operate.replayable", params | {"before": before}))}
    states: dict[str, str] = dict((yield Statement("operate.states", params)))
    states |= {id: row[0] for id, row in ended.items()}
    failed = [id for id, row in ended.items() if row[0] == State.FAILED]
    holders = yield from _holders([(ended[id][1], ended[id][3]) for id in failed if ended[id][3] is not None])
    picked: dict[str, tuple[int, bytes]] = {}
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
        picked[id] = (max(token + 1, now), trail.replayed(raw))
    if picked:
        yield from _move(picked, ended, now, answer)


def _move(
    picked: dict[str, tuple[int, bytes]], ended: dict[str, tuple[Any, ...]], now: int, answer: ops.Replayed
) -> Plan[None]:
    """Tombstones go first: a job that has one is taken for one that ended already."""
    yield Statement("operate.delete_gone", {"ids": sorted(picked)})
    params = {
        "now": now,
        "ids": list(picked),
        "tokens": [token for token, _ in picked.values()],
        "trails": [memory for _, memory in picked.values()],
    }
    back = {id for (id,) in (yield Statement("operate.replay", params))}
    yield Statement("operate.delete_ended", {"ids": sorted(back)})
    answer.replayed.extend(id for id in picked if id in back)
    late = {id: (ended[id][1], ended[id][3]) for id in picked if id not in back}
    if late:  # somebody has taken their keys since we looked
        holders = yield from _holders([(queue, key) for queue, key in late.values() if key is not None])
        for id, place in late.items():
            answer.skipped[id] = f"duplicate of {holders.get(place, 'another job')}"


def _holders(keys: Sequence[tuple[str, str]]) -> Plan[dict[tuple[str, str], str]]:
    """Who holds which of these (queue, unique key). Costs nothing where no job has one."""
    if not keys:
        return {}
    params = {"queues": [queue for queue, _ in keys], "keys": [key for _, key in keys]}
    return {(queue, key): id for queue, key, id in (yield Statement("operate.holders", params))}


def edit(op: ops.Edit, now: int | None) -> Plan[bool]:
    """Where the job is still as it was seen, or is as it shall be."""
    job = {"id": op.id, "queue": op.queue, "was": op.was, "body": op.body, "trail": op.trail}
    return bool((yield Statement("operate.edit", job, alone=True)))


def forget(op: ops.Forget, now: int | None) -> Plan[int]:
    """Delete ended jobs and the memory of their ids."""
    deleted = 0
    for some in batches(sorted(set(op.ids))):
        ids = [id for (id,) in (yield Statement("operate.delete_ended", {"ids": list(some)}))]
        if ids:
            yield Statement("operate.delete_gone", {"ids": ids})
        deleted += len(ids)
    return deleted


def prune(op: ops.Prune, now: int | None) -> Plan[ops.Pruned]:
    """Delete what is over: tombstones, kept jobs, records, and failed jobs by age and number, the oldest first."""
    moment = (yield Statement("operate.now", {"now": now}))[0][0]
    yield Statement("operate.prune_gone", {"now": moment, "limit": op.limit})
    yield Statement("operate.prune_kept", {"now": moment, "limit": op.limit})
    yield Statement("once.prune", {"now": moment, "limit": op.limit})
    yield Statement("registers.prune", {"now": moment, "limit": op.limit})
    left = yield Statement("operate.left", {"now": moment})
    failed, more = yield from _prune_failed(op, moment)
    return ops.Pruned(failed, more or bool(left[0][0]))


def _prune_failed(op: ops.Prune, now: int) -> Plan[tuple[int, bool]]:
    """How many went, and whether some are left that should."""
    if op.age_us is None and op.most is None:
        return 0, False
    filters = {"queue": op.queue, "task": op.task}
    before = now - op.age_us if op.age_us is not None else -1
    total, old = (yield Statement("operate.count_failed", {"before": before, **filters}))[0]
    beyond = max(0, total - op.most) if op.most is not None else 0
    over = max(beyond, old)
    count = min(op.limit, over)
    if count <= 0:
        return 0, over > 0
    gone = yield Statement("operate.prune_failed", {"limit": count, **filters})
    return int(gone[0][0]), over > count
