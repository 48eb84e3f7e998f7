"""What a job remembers between claims: its counts, apart from each other, and a bounded history of what went wrong.

A job that has never come back has no trail, so the happy path writes none. Only the holder of a claim's token
may replace a trail, so whoever holds it can compute the next one without asking.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

HISTORY = 10  # entries kept per job, the newest
TEXT = 2_000  # characters kept of a message
TRACEBACK = 8_000  # characters kept of a traceback: its end says most
EDITS = 10  # corrections of its arguments kept per job, the newest
DIFFERENCES = 20  # arguments whose change is kept of each, and
VALUE = 500  # so many characters of each value

# Checked on decoding, like the types: arithmetic on them cannot fail
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Moment = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999_999)]  # microseconds, up to the year 9999


class Mishap(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a job's history. `pending`: an upstream's answer that was not final, which is no trouble.

    `attempt` counts the answers there, else the attempts. `version`: of the code of that worker, where it has one.
    """

    kind: Literal["error", "timeout", "crash", "pending"]
    at_us: Moment
    attempt: Count
    worker: str
    type: str = ""
    message: str = ""
    traceback: str = ""
    started_us: Moment | None = None
    version: str = ""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one argument was changed: its values as JSON, cut where they are long; None where there was or is none."""

    name: str
    was: str | None = None
    now: str | None = None


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One correction of a failed job's arguments: when on the store's clock, by whom, why, and what."""

    at_us: Moment
    by: str
    why: str
    diff: tuple[Difference, ...] = ()


class Trail(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts and history of one job.

    `attempts`: runs that ended in an exception, a timeout or a `RetryIn`; `errors`: those that ended in an
    exception or a timeout; `crashes`: leases that ran out; `releases`: times given back unharmed; `snoozes`:
    times the handler put it off. Only attempts and errors are bounded by a retry policy, crashes by `max_crashes`.
    `polls`: answers of an upstream that were not final; each of them sets attempts and crashes back to 0.
    `probes`: runs that found, for their circuit, that the dependency is still down.
    """

    attempts: Count = 0
    errors: Count = 0
    crashes: Count = 0
    releases: Count = 0
    snoozes: Count = 0
    replays: Count = 0
    delay_us: Count = 0  # the previous delay, of a retry or a poll, for decorrelated jitter
    unknown_since_us: Moment | None = None  # first met by a worker that does not know the task
    unknowns: Count = 0
    alone: bool = False  # the last crash was its own doing: the worker held nothing else
    started: bool = False  # its handler began at least once, whatever came of it
    polls: Count = 0
    probes: Count = 0
    history: tuple[Mishap, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def has_started(self) -> bool:
        """Whether its handler has ever begun."""
        return self.started or bool(self.attempts or self.crashes or self.snoozes or self.polls)

    def with_mishap(self, mishap: Mishap) -> Trail:
        """A copy with one entry more, the oldest dropped beyond `HISTORY`."""
        return msgspec.structs.replace(self, history=(*self.history, mishap)[-HISTORY:])

    def with_edit(self, edit: Edit) -> Trail:
        """A copy with one correction more, the oldest dropped beyond `EDITS`, and bounded like all of it."""
        diff = tuple(
            Difference(clean(one.name, VALUE), _cut(one.was), _cut(one.now)) for one in edit.diff[:DIFFERENCES]
        )
        kept = Edit(edit.at_us, clean(edit.by, VALUE), clean(edit.why, TEXT), diff)
        return msgspec.structs.replace(self, edits=(*self.edits, kept)[-EDITS:])


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Trail)
EMPTY = Trail()


def encode(trail: Trail) -> bytes:
    """The trail as JSON."""
    return _encoder.encode(trail)


def decode(raw: bytes | None) -> Trail:
    """The trail in `raw`; an empty one where there is none or it cannot be read (nothing from a store is trusted)."""
    if not raw:
        return EMPTY
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # nested 100,000 deep: B102
        return EMPTY


def crashed(raw: bytes | None, *, worker: str, now_us: int, alone: bool) -> bytes:
    """The trail after the lease of `worker` ran out while it held this job."""
    trail = decode(raw)
    mishap = Mishap(
        "crash", now_us, trail.attempts + 1, worker, type="WorkerLost", message=f"the lease of {worker} ran out"
    )
    return encode(msgspec.structs.replace(trail.with_mishap(mishap), crashes=trail.crashes + 1, alone=alone))


def released(raw: bytes | None) -> bytes:
    """The trail after the job was given back unharmed."""
    trail = decode(raw)
    return encode(msgspec.structs.replace(trail, releases=trail.releases + 1))


def replayed(raw: bytes | None) -> bytes:
    """The trail after an operator made a failed job ready again: counts reset, history and corrections kept."""
    trail = decode(raw)
    return encode(Trail(replays=trail.replays + 1, history=trail.history, edits=trail.edits))


def _cut(value: str | None) -> str | None:
    return None if value is None else clean(value, VALUE)


def clean(text: str, limit: int, *, keep_end: bool = False) -> str:
    """`text` as valid UTF-8 of at most `limit` characters, with a mark where it was cut."""
    beyond = len(text) - limit
    if beyond > 0:  # first of all: the rest may be 5 MB
        text = text[-limit:] if keep_end else text[:limit]
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")
    if beyond <= 0:
        return text
    cut = f"[{beyond} characters cut]"
    return f"{cut}...{text}" if keep_end else f"{text}...{cut}"
