"""Leases: beat, leave and rescue. Trails are computed here: read first, then written, fenced by tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.stores.plan import Call, Plan
from headrace.stores.redis import records
from headrace.stores.redis.common import Common
from headrace.stores.redis.working import Holding, holdings

LEAVE_ROUNDS = 10  # a claim may still be on its way while its worker leaves
ALWAYS = str(10**18)  # later than every moment


def beat(store: Common, op: ops.Beat) -> Plan[ops.Beaten]:
    """Extend the lease in all queues; what the worker never heard of goes back."""
    queues = tuple(dict.fromkeys((*op.queues, *(held.queue for held in op.held))))
    now, released = 0, 0
    lost: set[int] = set()  # places in `held`: an id may be in two queues
    cancel: set[int] = set()
    for group in store.groups(queues):
        answer = yield Call("beat", store.keys.of_all(group, op.worker), _beat_args(store, op, group))
        now = int(answer[0])
        for place, queue in enumerate(group):
            gone, asked, unknown = answer[3 * place + 1 : 3 * place + 4]
            mine = [at for at, held in enumerate(op.held) if held.queue == queue]
            lost |= {mine[at - 1] for at in gone}
            cancel |= {mine[at - 1] for at in asked}
            released += yield from _release_unknown(store, op.worker, queue, unknown)
    store.registered.difference_update(op.queues)  # once more with each beat: it heals a flush of the server (B037)
    yield from store.announce(op.queues)
    return ops.Beaten(
        now,
        [held for at, held in enumerate(op.held) if at in lost],
        [held for at, held in enumerate(op.held) if at in cancel],
        released,
    )


def _beat_args(store: Common, op: ops.Beat, queues: tuple[str, ...]) -> tuple[Any, ...]:
    held = {queue: [one for one in op.held if one.queue == queue] for queue in queues}
    args: list[Any] = [store.moment(), op.worker, str(op.lease_us), str(op.open_claim), str(len(queues))]
    args += [str(len(held[queue])) for queue in queues]
    for queue in queues:
        args += [one.id for one in held[queue]]
        args += [b"%018d" % one.token for one in held[queue]]
    return tuple(args)


def _release_unknown(store: Common, worker: str, queue: str, flat: list[bytes]) -> Plan[int]:
    jobs: list[_Job] = [
        (flat[at], flat[at + 1], trail.released(records.changed(flat[at + 2]).trail if flat[at + 2] else None))
        for at in range(0, len(flat), 3)
    ]
    if not jobs:
        return 0
    answer = yield from _give_back(store, "beat", {(queue, worker): jobs})
    return sum(answer[0][1:])


_Job = tuple[Any, Any, bytes]  # id, token, trail


def _give_back(
    store: Common, mode: str, holdings: dict[tuple[str, str], list[_Job]], until: str = ALWAYS
) -> Plan[list[list[int]]]:
    """One call. Per (queue, worker): how many jobs it still holds (-1: it lives again), then 1 per job given back."""
    queues = tuple(dict.fromkeys(queue for queue, _ in holdings))
    keys = store.keys.of_all(queues) + tuple(store.keys.held(queue, worker) for queue, worker in holdings)
    reason = "crashed" if mode == "rescue" else "released"
    args: list[Any] = [store.moment(), mode, reason, until, str(len(queues)), str(len(holdings))]
    for (queue, worker), jobs in holdings.items():
        args += (str(queues.index(queue)), worker, str(len(jobs)))
    args += [field for jobs in holdings.values() for job in jobs for field in job]
    answer: list[list[int]] = yield Call("give_back", keys, tuple(args))
    return answer


def leave(store: Common, op: ops.Leave) -> Plan[int]:
    """Give back everything and unregister."""
    total = 0
    for queue in dict.fromkeys(op.queues):
        for _ in range(LEAVE_ROUNDS):
            held = yield from holdings(store, queue, [op.worker])
            jobs: list[_Job] = [(job.id, b"%018d" % job.token, trail.released(job.trail)) for job in held[op.worker]]
            answer = yield from _give_back(store, "leave", {(queue, op.worker): jobs})
            left, *done = answer[0]
            total += sum(done)
            if not left:
                break
    return total


def rescue(store: Common, op: ops.Rescue) -> Plan[ops.Rescued]:
    """Nearly always one call that finds nobody dead. Else whole workers, with what they hold in other queues."""
    dead: dict[str, list[str]] = {}
    now, until = 0, ALWAYS if op.not_after_us is None else str(op.not_after_us)
    for queues in store.groups(op.queues):
        answer = yield Call("dead", store.keys.of_all(queues), (store.moment(), until, str(len(queues))))
        now = int(answer[0])
        dead |= {queue: [records.text(name) for name in names] for queue, names in zip(queues, answer[1:], strict=True)}
    everyone = sorted({worker for workers in dead.values() for worker in workers})
    if not everyone:
        return ops.Rescued([])
    held = yield from _held(store, dead, everyone)
    orphans = _of_whole_workers(_orphans(dead, held), op.limit)
    rescued: set[tuple[str, bytes]] = set()
    for queues in store.groups(tuple(queue for queue in dead if dead[queue])):
        jobs = _jobs(queues, dead, orphans, now)
        answer = yield from _give_back(store, "rescue", jobs, until)
        rescued |= {
            (queue, job[0])
            for ((queue, _), some), (left, *codes) in zip(jobs.items(), answer, strict=True)
            if left >= 0
            for job, code in zip(some, codes, strict=True)
            if code
        }
    return ops.Rescued([orphan for id, orphan in orphans if (orphan.queue, id) in rescued])


def _held(store: Common, dead: dict[str, list[str]], everyone: list[str]) -> Plan[dict[str, dict[str, list[Holding]]]]:
    """What the dead hold, by queue. Queues that only they served are added to `dead`."""
    held: dict[str, dict[str, list[Holding]]] = {}
    for queue in dead:
        held[queue] = yield from holdings(store, queue, everyone)
    found = [worker for worker in everyone if any(workers[worker] for workers in held.values())]
    if found:
        for queue in (yield from store.known_queues()):
            if queue not in held:
                held[queue] = yield from holdings(store, queue, found)
                dead[queue] = [worker for worker in found if held[queue][worker]]
    return held


_Orphans = list[tuple[bytes, ops.Orphan]]  # with the id as it stands in the store


def _of_whole_workers(orphans: _Orphans, limit: int) -> _Orphans:
    """Up to the worker that reaches `limit`. Rescued in parts, its last job would look as if it had been alone."""
    counts = Counter(orphan.worker for _, orphan in orphans)
    chosen: set[str] = set()
    total = 0
    for worker in sorted(counts):
        if total >= limit:
            break
        chosen.add(worker)
        total += counts[worker]
    return [(id, orphan) for id, orphan in orphans if orphan.worker in chosen]


def _jobs(
    queues: tuple[str, ...], dead: dict[str, list[str]], orphans: _Orphans, now: int
) -> dict[tuple[str, str], list[_Job]]:
    """What is to be given back in these queues. Dead workers that hold nothing more are in it to be unregistered."""
    jobs: dict[tuple[str, str], list[_Job]] = {(queue, worker): [] for queue in queues for worker in dead[queue]}
    for id, orphan in orphans:
        if orphan.queue in queues:
            jobs[orphan.queue, orphan.worker].append((id, b"%018d" % orphan.token, _crashed(orphan, now)))
    return jobs


def _orphans(dead: dict[str, list[str]], held: dict[str, dict[str, list[Holding]]]) -> _Orphans:
    """In the order of their places. A worker was alone with a job when it held no other in any queue."""
    counts: dict[str, int] = {}
    for workers in held.values():
        for worker, jobs in workers.items():
            counts[worker] = counts.get(worker, 0) + len(jobs)
    found = [
        (job.order, job.id, _orphan(job, queue, worker, alone=counts[worker] == 1))
        for queue, workers in dead.items()
        for worker in workers
        for job in held[queue][worker]
    ]
    found.sort(key=lambda row: row[0])
    return [(id, orphan) for _, id, orphan in found]


def _orphan(job: Holding, queue: str, worker: str, *, alone: bool) -> ops.Orphan:
    return ops.Orphan(records.text(job.id), queue, job.token, worker, job.trail, alone, job.cancel)


def _crashed(orphan: ops.Orphan, now_us: int) -> bytes:
    return trail.crashed(orphan.trail, worker=orphan.worker, now_us=now_us, alone=orphan.alone)
