"""Events as producers write them, as sinks get them, and as handlers see them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headrace.core import values
from headrace.core.codec import MAX_BODY, MAX_DEPTH
from headrace.core.moments import aware
from headrace.core.outbox import JOB_EVENT, NewEvent, StoredEvent
from headrace.errors import ConfigError, InvalidArguments, PayloadTooLarge, UnreadableEnvelope
from headrace.options import checked_headers

LARGEST = MAX_BODY - 20_000  # bytes of payload and headers: a subscriber's job carries them, and what is its own
LONGEST_NAME = 255  # characters of a type or of an aggregate's id, as databases' columns have them


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler may know about an event besides its payload: declare a parameter with this annotation."""

    id: str  # a UUID: what to deduplicate by
    type: str
    aggregate_type: str
    aggregate_id: str
    headers: dict[str, str] = {}
    created_us: int  # when it was written, in microseconds since the epoch on the database's clock

    @property
    def created(self) -> datetime:
        """When it was written, aware, in UTC."""
        return aware(self.created_us)


class Message(msgspec.Struct, frozen=True):
    """An event on its way to a sink. `waited_us`: how long ago it was written, when it was claimed."""

    event: Event
    payload: bytes  # JSON, exactly as it was written
    waited_us: int = 0


_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook)
_headers_decoder = msgspec.json.Decoder(dict[str, str])
_raw_decoder = msgspec.json.Decoder(msgspec.Raw)


def new_event(
    event_type: str,
    id: str,
    *,
    payload: Any,
    aggregate: tuple[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> NewEvent:
    """A checked event. Without an aggregate it is one of its own: in order with nothing.

    Raises:
        ConfigError: a name, an id or a header is of the wrong kind.
        InvalidArguments: the payload has no JSON form.
        PayloadTooLarge: it has more than 980,000 bytes, headers counted twice, or more than 64 levels.
    """
    if event_type == JOB_EVENT:
        raise ConfigError(f"event_type is {JOB_EVENT!r}, which headrace keeps for itself: choose another")
    kind, of = (event_type, id) if aggregate is None else _pair(aggregate)
    encoded_headers = msgspec.json.encode(checked_headers(headers or {}))
    return NewEvent(
        id=checked_event_id(id),
        event_type=_name("event_type", event_type),
        aggregate_type=_name("aggregate type", kind),
        aggregate_id=_name("aggregate id", str(of)),
        payload=encoded(payload, event_type, beside=2 * len(encoded_headers)),
        headers=encoded_headers.decode(),
    )


def _pair(aggregate: Any) -> tuple[str, Any]:
    if not isinstance(aggregate, tuple) or len(aggregate) != 2:
        raise ConfigError(f'aggregate is {aggregate!r:.80}: give its type and its id, such as ("Order", order.id)')
    return aggregate[0], aggregate[1]


def _name(what: str, name: Any) -> str:
    if type(name) is not str or not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise ConfigError(f"{what} is {name!r:.80}: use 1 to {LONGEST_NAME} printable characters")
    return name


def checked_event_id(id: str | UUID) -> str:
    """A UUID in its usual form.

    Raises:
        ConfigError: it is none.
    """
    try:
        return str(UUID(str(id)))
    except ValueError:
        raise ConfigError(f"id is {id!r:.80}: an event's id is a UUID") from None


def encoded(payload: Any, event_type: str, beside: int = 0) -> str:
    """The payload as JSON, checked as arguments of jobs are. `beside`: bytes that a job carries besides it."""
    try:
        raw = _encoder.encode(payload)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"the payload of {event_type!r} has no JSON form: {error}") from None
    if values.depth(raw) > MAX_DEPTH:
        raise PayloadTooLarge(f"the payload of {event_type!r} has more than {MAX_DEPTH} levels: flatten it")
    if trouble := values.find_lossy_number(payload, "payload"):
        raise InvalidArguments(f"{trouble.path} is {trouble.what}: {trouble.fix}")
    if len(raw) + beside > LARGEST:
        raise PayloadTooLarge(
            f"the payload of {event_type!r} has {len(raw):,} bytes and its headers count as {beside:,}, "
            f"{LARGEST:,} are allowed: store the data elsewhere and pass its id"
        )
    return raw.decode()


def message_of(stored: StoredEvent, now_us: int) -> Message:
    """What a sink gets of a row.

    Raises:
        UnreadableEnvelope: its payload or its headers are no JSON: another program wrote them.
    """
    try:
        headers = _headers_decoder.decode(stored.headers)
        payload = bytes(_raw_decoder.decode(stored.payload))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableEnvelope(f"payload or headers of the event cannot be read: {error}") from None
    event = Event(
        id=stored.id,
        type=stored.event_type,
        aggregate_type=stored.aggregate_type,
        aggregate_id=stored.aggregate_id,
        headers=headers,
        created_us=stored.created_us,
    )
    return Message(event, payload, max(0, now_us - stored.created_us))
