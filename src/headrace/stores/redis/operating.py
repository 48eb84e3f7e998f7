"""What operators do: cancel, replay, edit, forget, prune."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.common import Common, Id
from headrace.stores.redis.looking import Entry, job_views, page
from headrace.stores.redis.records import text


def cancel(store: Common, op: ops.Cancel) -> Plan[str]:
    """Cancel in the queue where the job is found."""
    for queue in (yield from store.known_queues(op.queue)):
        answer = yield Call("cancel", store.keys.of(queue), (store.moment(), op.id, str(op.keep_us)))
        if answer != b"absent":
            return str(answer.decode())
    return "absent"


def replay(store: Common, op: ops.Replay) -> Plan[ops.Replayed]:
    """Read the failed jobs, then make them ready if they are still as they were."""
    answers: dict[str, str] = {}
    ids = list(dict.fromkeys(op.ids))
    for queue in (yield from store.known_queues(op.queue)):
        missing = [id for id in ids if id not in answers]
        for start in range(0, len(missing), BATCH):
            answers |= yield from _replay(store, queue, missing[start : start + BATCH], op.before_us)
    replayed = [id for id in ids if answers.get(id) == ""]
    skipped = {id: answers.get(id, "absent") for id in ids if answers.get(id) != ""}
    again = (id for id, times in Counter(op.ids).items() if times > 1 and id not in skipped)
    return ops.Replayed(replayed, skipped | dict.fromkeys(again, "is ready"))


def _replay(store: Common, queue: str, ids: list[str], before_us: int) -> Plan[dict[str, str]]:
    """What became of those that are in this queue: '' or the reason why not."""
    views = yield from job_views(store, queue, ids, as_stored=True)
    answers = {view.id: f"is {view.state.value}" for view in views}
    failed = [view for view in views if view.state is State.FAILED and (view.finished_us or 0) < before_us]
    answers |= {view.id: "is failed again" for view in views if view.state is State.FAILED}
    if failed:
        args: list[Any] = [store.moment()]
        for view in failed:
            args += (view.id, b"%018d" % view.token, trail.replayed(view.trail))
        texts = yield Call("replay", store.keys.of(queue), tuple(args))
        answers |= {view.id: text(answer) for view, answer in zip(failed, texts, strict=True)}
    return answers


def edit(store: Common, op: ops.Edit) -> Plan[bool]:
    """One call that compares and replaces."""
    return bool((yield Call("edit", store.keys.of(op.queue), (op.id, op.was, op.body, op.trail))))


def forget(store: Common, op: ops.Forget) -> Plan[int]:
    """Delete jobs that ended, and their tombstones."""
    total = 0
    left = list(dict.fromkeys(op.ids))
    for queue in (yield from store.known_queues(op.queue)):
        gone = yield from _delete(store, queue, left, "", "1")
        total += len(gone)
        left = [id for id in left if id not in gone]
    return total


def _delete(store: Common, queue: str, ids: Sequence[Id], only: str, tombstones: str) -> Plan[set[Id]]:
    gone: set[Id] = set()
    for start in range(0, len(ids), BATCH):
        part: Sequence[Id] = ids[start : start + BATCH]
        codes = yield Call("forget", store.keys.of(queue), (only, tombstones, *part))
        gone |= {id for id, code in zip(part, codes, strict=True) if code}
    return gone


def prune(store: Common, op: ops.Prune) -> Plan[ops.Pruned]:
    """Sweep what is over, in all queues, then delete old failed jobs and the oldest beyond the most."""
    everywhere = yield from store.known_queues()
    more = yield from _sweep(store, everywhere, op.limit)
    for script, keys in (("sweep_once", store.keys.once), ("sweep_registers", store.keys.registers)):
        more = (yield from _sweep_apart(store, script, keys, op.limit)) or more
    if op.age_us is None and op.most is None:
        return ops.Pruned(0, more)
    queues = everywhere if op.queue is None else [op.queue]
    entries, total, now = yield from _oldest_failed(store, op, queues)
    beyond = max(0, total - op.most) if op.most is not None else 0
    until = now - op.age_us if op.age_us is not None else -1
    old = [entry for place, entry in enumerate(entries) if place < beyond or entry.score <= until]
    count = 0
    for queue, ids in _by_queue(old[: op.limit]).items():
        gone = yield from _delete(store, queue, ids, "failed", "0")
        count += len(gone)
    return ops.Pruned(count, more or len(old) > op.limit)


def _sweep(store: Common, queues: list[str], limit: int) -> Plan[bool]:
    """At most `limit` kept jobs, as many unique keys and once records, queue by queue. Whether some are left."""
    left, more = limit, False
    for queue in queues:
        while True:
            args = (store.moment(), str(min(left, BATCH)))
            *gone, rest = yield Call("sweep", store.keys.of(queue), args)
            left -= max(gone)
            if not rest or left <= 0:
                break
        more = more or bool(rest)
    return more


def _sweep_apart(store: Common, script: str, keys: tuple[str, ...], limit: int) -> Plan[bool]:
    """The same for what is in no queue."""
    left = limit
    while True:
        gone, rest = yield Call(script, keys, (store.moment(), str(min(left, BATCH))))
        left -= gone
        if not rest or left <= 0:
            return bool(rest)


def _by_queue(entries: Iterable[Entry]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for entry in entries:
        found.setdefault(entry.queue, []).append(entry.id)
    return found


def _oldest_failed(store: Common, op: ops.Prune, queues: list[str]) -> Plan[tuple[list[Entry], int, int]]:
    """The oldest failed jobs of all queues, how many there are, and now. With a task filter all are looked at."""
    entries: list[Entry] = []
    total, now = 0, 0
    for queue in queues:
        after: Entry | None = None
        seen = 0
        while True:
            some, now, count = yield from page(store, queue, "failed", after, BATCH)
            entries += some if op.task is None else (yield from _of_task(store, queue, op.task, some))
            seen += len(some)
            if len(some) < BATCH or (op.task is None and seen > op.limit):
                total += count
                break
            after = some[-1]
    entries.sort()
    return entries, total if op.task is None else len(entries), now


def _of_task(store: Common, queue: str, task: str, entries: list[Entry]) -> Plan[list[Entry]]:
    views = yield from job_views(store, queue, [entry.id for entry in entries])
    matching = {view.id for view in views if view.task == task}
    return [entry for entry in entries if text(entry.id) in matching]
