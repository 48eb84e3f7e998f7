"""Jobs on their way through the outbox, for apps whose jobs live elsewhere than the caller's data.

The event's type is `headrace.job`, its payload `{"job": {...}, "envelope": {...}}`: what the store is to know of the
job, and the envelope as it would stand in the store. Unique keys and bounds are decided by the relay, and a delay
counts from when the row was written.
"""

from __future__ import annotations

import msgspec

from headrace.core.operations import NewJob, UniqueUntil
from headrace.core.outbox import JOB_EVENT, NewEvent
from headrace.errors import UnreadableEnvelope


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job without its body."""

    id: str
    queue: str
    task: str
    priority: int = 0
    delay_us: int = 0
    due_us: int | None = None
    unique: str | None = None
    unique_until: UniqueUntil = "end"
    unique_us: int = 0


class JobRow(msgspec.Struct, frozen=True):
    """The payload of such an event."""

    job: Kept
    envelope: msgspec.Raw


_decoder = msgspec.json.Decoder(JobRow)


def event_of(job: NewJob, event_id: str) -> NewEvent:
    """The outbox row of a job; `event_id` is a UUID, the job's own id where that is one."""
    fields = {name: getattr(job, name) for name in Kept.__struct_fields__}
    payload = msgspec.json.encode(JobRow(Kept(**fields), msgspec.Raw(job.body)))
    return NewEvent(
        id=event_id,
        event_type=JOB_EVENT,
        aggregate_type=JOB_EVENT,
        aggregate_id=event_id,
        payload=payload.decode(),
    )


def job_of(payload: bytes, waited_us: int) -> NewJob:
    """The job of a row that was written `waited_us` ago. Its id is remembered for 24 h: a row may be sent twice.

    Raises:
        UnreadableEnvelope: the payload is none of a job.
    """
    try:
        row = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableEnvelope(f"the payload is none of a job: {error}") from None
    fields = msgspec.structs.asdict(row.job) | {"delay_us": max(0, row.job.delay_us - waited_us), "derived": True}
    return NewJob(body=bytes(row.envelope), **fields)
