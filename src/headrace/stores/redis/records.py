"""Jobs as Redis keeps them, to and from ours: fixed-width fields that Lua cuts out without parsing, then the body."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.errors import ConfigError

HEAD = 44  # created (18), due (18), order band (3), derived (1), length of the task (4)
STATE_HEAD = 58  # token (18), due (18), base (18), length of the reason (4)
_MOST = 10**18 - 1  # what 18 digits hold
_HEADS = 1_000  # packed heads kept; there are about as many as there are tasks

_PLACES = {
    "running": State.RUNNING,
    "ready": State.READY,
    "due": State.SCHEDULED,
    "parked": State.PARKED,
    "failed": State.FAILED,
    "succeeded": State.SUCCEEDED,
    "cancelled": State.CANCELLED,
    "expired": State.EXPIRED,
}


class Changing(msgspec.Struct, frozen=True, gc=False):
    """What may change in a job; `trail` is None until it has come back once."""

    token: int
    due_us: int
    base_us: int
    reason: str
    trail: bytes | None


class Packer:
    """Packs new jobs. The heads of a few tasks are the same for millions of jobs, so they are kept."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, bool, str], bytes] = {}

    def record(self, job: ops.NewJob) -> bytes:
        """The record without the two times, which are the server's.

        Raises:
            ConfigError: as `head` does.
        """
        return self.head(job) + job.body

    def head(self, job: ops.NewJob) -> bytes:
        """What precedes the body.

        Raises:
            ConfigError: the priority is not within -100..100, or the task's name is too long.
        """
        key = (job.priority, job.derived, job.task)
        return self._heads.get(key) or self._head(*key)

    def _head(self, priority: int, derived: bool, task: str) -> bytes:  # noqa: FBT001 - a field of the key
        if not -100 <= priority <= 100:
            raise ConfigError(f"priority is {priority}: use -100 to 100, higher runs first")
        name = task.encode()
        if len(name) > 9999:
            raise ConfigError(f"the name of task {task[:60]!r}... has {len(name)} bytes: use at most 9999")
        head = b"%03d%d%04d%b" % (100 - priority, derived, len(name), name)
        if len(self._heads) >= _HEADS:
            self._heads.clear()
        self._heads[priority, derived, task] = head
        return head


def when(job: ops.NewJob) -> str:
    """The due time as enqueue.lua reads it."""
    if job.due_us is not None:
        return f"={min(max(0, job.due_us), _MOST):018d}"
    return f"+{job.delay_us}" if job.delay_us > 0 else ""


def unique(job: ops.NewJob) -> bytes:
    """The entry of `unique_of`: when the key is freed, its lifetime, the key."""
    if job.unique is None:
        return b""
    return b"%c%018d%b" % (job.unique_until[0].encode(), min(max(0, job.unique_us), _MOST), job.unique.encode())


def number(score: bytes) -> int:
    """A score; those beyond 2^53 come with an exponent and without their last digits, foreign ones may be infinite."""
    return int(score) if score.isdigit() else int(max(-1e18, min(float(score), 1e18)))


def digits(moment_us: int) -> bytes:
    """A moment as 18 digits, which sort as it does."""
    return b"%018d" % min(max(0, moment_us), _MOST)


def text(name: bytes) -> str:
    """An id or a name for people. Ours are UTF-8; in what another program wrote, bytes that are not are written out."""
    return name.decode("utf-8", "backslashreplace")


def changing(record: bytes, state: bytes | None) -> Changing:
    """What `state` says, else what follows from the record."""
    if not state:
        created = int(record[:18])
        return Changing(created, int(record[18:36]), created, "", None)
    return changed(state)


def changed(state: bytes) -> Changing:
    """An entry of `state`."""
    end = STATE_HEAD + int(state[54:STATE_HEAD])
    reason = state[STATE_HEAD:end].decode("utf-8", "replace")
    return Changing(int(state[:18]), int(state[18:36]), int(state[36:54]), reason, state[end:] or None)


def claimed(queue: str, id: bytes, record: bytes, state: bytes | None) -> ops.ClaimedJob:
    """A job as claim.lua gives it out."""
    created = int(record[:18])
    content = record[HEAD + int(record[40:HEAD]) :]
    if not state:
        return ops.ClaimedJob(text(id), queue, created, content, None, created, created)
    now = changed(state)
    return ops.ClaimedJob(text(id), queue, now.token, content, now.trail, created, now.base_us)


def view(queue: str, row: list[Any], now_us: int, worker: str | None, *, bodies: bool) -> ops.JobView:
    """A job as views.lua tells it."""
    id, where, score, record, raw, unique_of, cancel = row
    end = HEAD + int(record[40:HEAD])
    changing_part = changing(record, raw)
    state = _PLACES[where.decode()]
    if state is State.SCHEDULED and number(score) <= now_us:
        state = State.READY
    return ops.JobView(
        text(id),
        queue,
        record[HEAD:end].decode("utf-8", "replace"),
        state,
        100 - int(record[36:39]),
        changing_part.token,
        int(record[:18]),
        changing_part.due_us,
        changing_part.base_us,
        finished_us=number(score) if state in TERMINAL else None,
        claimed_us=number(score) if state is State.RUNNING else None,
        worker=worker,
        reason=changing_part.reason,
        unique=unique_of[19:].decode("utf-8", "replace") if unique_of else None,
        cancel=bool(cancel),
        trail=changing_part.trail,
        body=record[end:] if bodies else None,
    )
