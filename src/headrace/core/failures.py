"""Failed jobs as data: what is told of one, which ones somebody means, and which of them are the same failure."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from typing import Any

import msgspec

from headrace.core import codec, endings, trail
from headrace.core.codec import Envelope
from headrace.core.moments import EPOCH, aware
from headrace.core.operations import ClaimedJob, JobView, Outcome
from headrace.core.trail import Mishap, Trail
from headrace.errors import ConfigError, UnreadableEnvelope

DIGITS = 12  # of a fingerprint
NAMES = 20  # tasks that are named of one group
_FRAME = re.compile(r'^[ |+-]*File "(.+?)", line \d+, in (.+)$', re.MULTILINE)
_BLOCK = "Traceback (most recent call last):"
_LIBRARY = re.compile(r"[\\/](site-packages|dist-packages)[\\/]|[\\/]lib[\\/]python3[^\\/]*[\\/]|^<", re.IGNORECASE)
_LIBRARY_FOLDERS = re.compile(r"^.*[\\/](?:(?:site|dist)-packages|lib[\\/]python3[^\\/]*)[\\/]", re.IGNORECASE)
_OURS = re.compile(re.escape(__file__.removesuffix("core/failures.py")))
_SEPARATORS = re.compile(r"[\\/]+")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is told of a job that has failed.

    `cause` is one of "error" (an exception, with no attempt left or none allowed), "timeout", "verdict" (its handler
    decided so), "crashed" (it kept killing its workers), "deadline", "bad arguments", "bad result" (of a poll),
    "unknown task", "unreadable", "newer message" and "once" (its once key). `reason` is the short text that listings
    show. `error` and `message` are those of the last thing that went wrong.
    """

    id: str
    task: str  # empty where the message could not be read
    queue: str
    cause: str
    reason: str
    error: str = ""
    message: str = ""
    attempts: int = 0
    crashes: int = 0
    args: Any = None  # as JSON; None where they could not be read, or have no room beside the rest
    tenant: str | None = None
    tags: tuple[str, ...] = ()


_CAUSES: dict[type, str] = {
    endings.Raised: "error",
    endings.RaisedElsewhere: "error",
    endings.Crashed: "crashed",
    endings.TimedOut: "timeout",
    endings.Decided: "verdict",
    endings.Poisoned: "crashed",
    endings.FailedBefore: "once",
    endings.OnceKeyReused: "once",
}


def cause(ending: endings.Ending, outcome: Outcome) -> str:
    """Why a job has failed that ended so: see `Failure`."""
    # else unreadable, newer message, unknown task, bad arguments, bad result
    return "deadline" if outcome.reason == "deadline" else _CAUSES.get(type(ending), outcome.reason)


def failure(job: ClaimedJob, envelope: Envelope | None, task: str, ending: endings.Ending, outcome: Outcome) -> Failure:
    """What is told of `job`, which has failed with `outcome`; but for its arguments."""
    remembered = trail.decode(outcome.trail)
    last = remembered.history[-1] if remembered.history else None
    return Failure(
        id=job.id,
        task=task,
        queue=job.queue,
        cause=cause(ending, outcome),
        reason=outcome.reason,
        error=last.type if last else "",
        message=last.message if last else "",
        attempts=remembered.attempts,
        crashes=remembered.crashes,
        tenant=envelope.tenant if envelope else None,
        tags=envelope.tags if envelope else (),
    )


# -- which ones somebody means


class FailedFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which failed jobs are meant: those that fit all that is given.

    `reason` is what listings show; `error` the type of the last error; `text` stands, in any case, in an error's type
    or message, or in the arguments as they are stored. `since` (included) and `until` (not) say when they failed, as
    aware datetimes on the store's clock. `fingerprint` is that of a group.

    Raises:
        ConfigError: a moment has no time zone.
    """

    queue: str | None = None
    task: str | None = None
    reason: str | None = None
    error: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tenant: str | None = None
    tag: str | None = None
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.utcoffset() is None:
                raise ConfigError(f"{name} is the naive datetime {moment.isoformat()}: give it a time zone (B143)")

    @property
    def needs_bodies(self) -> bool:
        """Whether listings must bring the messages along."""
        return not (self.text is None and self.tenant is None and self.tag is None)

    def matches(self, view: JobView) -> bool:
        """Whether a failed job is meant. What a store can filter by is not looked at again."""
        finished_us = view.finished_us or 0
        if self.until is not None and finished_us >= _micros(self.until):
            return False
        return not self.is_past(view) and self._fits(view, trail.decode(view.trail))

    def is_past(self, view: JobView) -> bool:
        """Whether this one, and all that come after it in a listing, failed before `since`."""
        return self.since is not None and (view.finished_us or 0) < _micros(self.since)

    def _fits(self, view: JobView, remembered: Trail) -> bool:
        last = _decisive(remembered)
        if self.error is not None and self.error not in {mishap.type for mishap in (last, *remembered.history[-1:])}:
            return False
        if self.fingerprint is not None and self.fingerprint != place(remembered, view).fingerprint:
            return False
        return not self.needs_bodies or self._fits_body(view, remembered)

    def _fits_body(self, view: JobView, remembered: Trail) -> bool:
        envelope = _read(view.body)
        if self.tenant is not None and (envelope is None or envelope.tenant != self.tenant):
            return False
        if self.tag is not None and (envelope is None or self.tag not in envelope.tags):
            return False
        return self.text is None or self._finds(self.text.casefold(), view, envelope, remembered)

    def _finds(self, text: str, view: JobView, envelope: Envelope | None, remembered: Trail) -> bool:
        payload = bytes(envelope.args) if envelope is not None else view.body or b""
        said = [f"{mishap.type}: {mishap.message}" for mishap in remembered.history]
        return any(text in part.casefold() for part in (view.reason, *said, payload.decode("utf-8", "replace")))


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _read(body: bytes | None) -> Envelope | None:
    try:
        return None if body is None else codec.decode(body)
    except UnreadableEnvelope:
        return None


# -- which ones are the same failure


class Place(msgspec.Struct, frozen=True):
    """Type and place of a failure, by which those of one cause are told from others."""

    type: str
    place: str

    @property
    def fingerprint(self) -> str:
        """Short and stable: line numbers and the folders of a deploy are not in it."""
        return hashlib.sha256(f"{self.type}\n{self.place}".encode("utf-8", "replace")).hexdigest()[:DIGITS]


def place(remembered: Trail, view: JobView) -> Place:
    """Where a failed job failed: the innermost frame of the application's own code; without one, its task."""
    last = _decisive(remembered)
    return Place(last.type or view.reason or "failed", own_frame(last.traceback, view.task) or view.task)


def _decisive(remembered: Trail) -> Mishap:
    """The last thing that went wrong; where a decision about an error followed it at once, that error."""
    troubles = [mishap for mishap in remembered.history if mishap.kind != "pending"]
    if not troubles:
        return Mishap("error", 0, 0, "")
    last = troubles[-1]
    if len(troubles) > 1 and not last.traceback:
        before = troubles[-2]
        if before.traceback and before.attempt == last.attempt and before.at_us == last.at_us:
            return before
    return last


def own_frame(text: str, task: str = "") -> str:
    """`module.function` of the innermost frame in a traceback that is no library's; else of the innermost; else "".

    The name of the task tells where its code begins: the folders above that, which a deploy may change, are not told.
    """
    blocks = [_FRAME.findall(block) for block in text.split(_BLOCK)]
    frames = [frame for block in blocks for frame in block]
    names = task.split(".")
    root = _root([_parts(file) for file, _ in frames if _is_own(file)], names)
    for some in (blocks[-1], frames):
        own = [frame for frame in some if _is_own(frame[0])]
        if own:
            file, function = own[-1]
            return ".".join((*_module(_parts(file), root, names), function))
    if not frames:
        return ""
    file, function = frames[-1]
    return ".".join((*_parts(_LIBRARY_FOLDERS.sub("", file)), function))


def _is_own(file: str) -> bool:
    return not _LIBRARY.search(file) and not _OURS.match(file)


def _parts(file: str) -> tuple[str, ...]:
    parts = [part for part in _SEPARATORS.split(file.removesuffix(".py")) if part]
    if len(parts) > 1 and parts[-1] == "__init__":
        parts.pop()
    return tuple(parts)


def _root(files: list[tuple[str, ...]], names: list[str]) -> tuple[str, ...] | None:
    """The folder of the task's module or package: a frame's file ends below it as the task's name begins."""
    for length in range(len(names), 0, -1):
        for parts in files:
            if parts[-length:] == tuple(names[:length]):
                return parts[:-length]
    return None


def _module(parts: tuple[str, ...], root: tuple[str, ...] | None, names: list[str]) -> tuple[str, ...]:
    """The name of a module as far as it is known; else that of its file alone."""
    if root is not None and parts[: len(root)] == root:
        return parts[len(root) :]
    # tracebacks are cut: the frame of the task itself may be gone, but its package is known
    if len(names) > 2 and names[0] in parts[:-1]:
        return parts[len(parts) - 1 - parts[::-1].index(names[0]) :]
    return parts[-1:]


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failed jobs of one fingerprint: how many, when the first and the last of them failed, and the newest of them."""

    fingerprint: str
    type: str
    place: str
    count: int
    first: datetime
    last: datetime
    tasks: tuple[str, ...]  # sorted, at most 20
    example: str  # an id
    message: str  # of that one


class Grouping:
    """Gathers failed jobs, which come newest first, into groups."""

    def __init__(self) -> None:
        self._groups: dict[Place, list[Any]] = {}

    def add(self, view: JobView) -> None:
        """One more."""
        remembered = trail.decode(view.trail)
        found = place(remembered, view)
        at = view.finished_us or 0
        group = self._groups.setdefault(found, [0, at, at, set(), view.id, _decisive(remembered).message])
        group[0] += 1
        group[1], group[2] = min(group[1], at), max(group[2], at)
        if len(group[3]) < NAMES:
            group[3].add(view.task)

    def groups(self) -> list[FailureGroup]:
        """All groups, the largest first."""
        found = [
            FailureGroup(
                fingerprint=one.fingerprint,
                type=one.type,
                place=one.place,
                count=count,
                first=aware(first),
                last=aware(last),
                tasks=tuple(sorted(tasks)),
                example=example,
                message=message,
            )
            for one, (count, first, last, tasks, example, message) in self._groups.items()
        ]
        return sorted(found, key=lambda group: (-group.count, group.fingerprint))
