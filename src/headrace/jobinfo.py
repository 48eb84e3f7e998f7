"""A stored job as a program or a person reads it. Making one never fails, whatever the store holds (B141)."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from headrace.core import codec, settle, trail
from headrace.core.codec import Envelope
from headrace.core.moments import aware
from headrace.core.once_records import OnceView
from headrace.core.operations import JobView
from headrace.core.poll import Polling
from headrace.core.states import State
from headrace.core.trail import Edit, Mishap, Trail
from headrace.errors import UnreadableEnvelope


class PollInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where a poll stands. `JobInfo.due` is when its next query is, `JobInfo.deadline` when it gives up."""

    schedule: str  # as it is written in the code of this app
    answers: int  # that were not final
    most: int | None  # such answers after which it gives up
    delay: float | None  # seconds from the end of the last query to the next one; None before the first


class OnceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A once key of a task and its record. Moments are aware datetimes in UTC, on the store's clock."""

    task: str
    key: str
    state: Literal["held", "done", "failed", "free"]  # held also where the holder is gone but nobody has come since
    holder: str = ""  # the job that holds it, or has held it last; empty where there is no record
    fence: int | None = None  # None where there is no record: nothing has run under the key, or it was forgotten
    until: datetime | None = None  # when the record is forgotten, unless somebody comes before
    result: Any = None  # of a job that is done, decoded; of one that failed, the error's type and message


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One job. Moments are aware datetimes in UTC, on the store's clock."""  # B143

    id: str
    queue: str
    task: str
    state: State
    priority: int
    enqueued: datetime
    due: datetime
    started: datetime | None  # the running claim
    finished: datetime | None
    worker: str | None
    reason: str  # short: an error's type name, "crashed", "timeout"
    unique: str | None
    cancel_requested: bool
    counts: dict[str, int]  # attempts, errors, crashes, releases, snoozes, replays, polls, probes
    history: tuple[Mishap, ...]  # what went wrong, oldest first, at most 10
    edits: tuple[Edit, ...] = ()  # corrections of its arguments while it was failed, oldest first, at most 10
    args: Any = None  # decoded JSON; None in listings and where it cannot be decoded
    envelope: Envelope | None = None  # None in listings and where it cannot be decoded
    body: bytes | None = None  # as stored; None in listings
    problem: str = ""  # "cannot decode: ..." when the body cannot be read
    deadline: datetime | None = None  # no run starts then or later; None in listings
    poll: PollInfo | None = None  # of a poll; None in listings
    once: OnceInfo | None = None  # of a task with once=; None in listings

    @property
    def failure(self) -> str:
        """The last thing that went wrong, in one line; empty when nothing did."""
        if not self.history:
            return self.reason
        last = self.history[-1]
        text = f"{last.type}: {last.message}" if last.message else last.type or last.kind
        return text if self.reason in ("", last.type, last.kind) else f"{self.reason} ({text})"

    @property
    def code_version(self) -> str | None:
        """Of the code that enqueued it; that of each worker that ran it stands in the history."""
        return None if self.envelope is None else self.envelope.code_version

    @property
    def traceback(self) -> str:
        """The traceback of the last error; empty when there is none."""
        return self.history[-1].traceback if self.history else ""


class JobPage(msgspec.Struct, frozen=True):
    """One page of a listing; `next` is the cursor of the following one, None at the end."""

    jobs: tuple[JobInfo, ...]
    next: str | None = None


def job_info(view: JobView, poll: Polling | None = None) -> JobInfo:
    """What `view` says, decoded as far as it can be. `poll`: that of its task, if it is a poll."""
    remembered = trail.decode(view.trail)
    envelope, args, problem = _read(view.body)
    deadline_us = None
    if envelope is not None:
        _, deadline_us = settle.limits(view.created_us, view.base_us, envelope, poll)
    return JobInfo(
        id=view.id,
        queue=view.queue,
        task=view.task,
        state=view.state,
        priority=view.priority,
        enqueued=_aware(view.created_us),
        due=_aware(view.due_us),
        started=None if view.claimed_us is None else _aware(view.claimed_us),
        finished=None if view.finished_us is None else _aware(view.finished_us),
        worker=view.worker,
        reason=view.reason,
        unique=view.unique,
        cancel_requested=view.cancel,
        counts={
            "attempts": remembered.attempts,
            "errors": remembered.errors,
            "crashes": remembered.crashes,
            "releases": remembered.releases,
            "snoozes": remembered.snoozes,
            "replays": remembered.replays,
            "polls": remembered.polls,
            "probes": remembered.probes,
        },
        history=remembered.history,
        edits=remembered.edits,
        args=args,
        envelope=envelope,
        body=view.body,
        problem=problem,
        deadline=None if deadline_us is None else _aware(deadline_us),
        poll=None if poll is None else _poll_info(poll, remembered),
    )


def listed(view: JobView) -> JobInfo:
    """A job in a listing: without its message, which may have been read to find it."""
    return job_info(view if view.body is None else msgspec.structs.replace(view, body=None))


def once_info(task: str, key: str, view: OnceView | None) -> OnceInfo:
    """What `view` says of a key, decoded as far as it can be."""
    if view is None:
        return OnceInfo(task=task, key=key, state="free")
    return OnceInfo(
        task=task,
        key=key,
        state=view.state,
        holder=view.owner,
        fence=view.fence,
        until=_aware(view.until_us),
        result=_result(view.result),
    )


def _result(raw: bytes | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"[cannot be decoded: {error}]"


def _poll_info(poll: Polling, remembered: Trail) -> PollInfo:
    delay_s = remembered.delay_us / 1_000_000 if remembered.polls or remembered.attempts else None
    return PollInfo(schedule=poll.text, answers=remembered.polls, most=poll.most, delay=delay_s)


def _read(body: bytes | None) -> tuple[Envelope | None, Any, str]:
    if body is None:
        return None, None, ""
    try:
        envelope = codec.decode(body)
    except UnreadableEnvelope as error:
        return None, None, f"cannot decode: {error}"
    try:
        return envelope, msgspec.json.decode(envelope.args), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return envelope, None, f"cannot decode the arguments: {error}"


def _aware(unix_us: int) -> datetime:
    try:
        return aware(unix_us)
    except (OverflowError, ValueError):  # a due time far beyond what datetime holds, written by another program
        return datetime.max.replace(tzinfo=aware(0).tzinfo) if unix_us > 0 else aware(0)
