"""What a webhook says, as the bytes that are signed and sent."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from headrace.core import values
from headrace.core.trail import clean
from headrace.errors import ConfigError, InvalidArguments, PayloadTooLarge

MOST_BYTES = 20_000

_EVENT = re.compile(r"[A-Za-z0-9_.-]{1,200}\Z")
_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook)
_CONTENT_TYPE = re.compile(r"[\x21-\x7e]+/[\x20-\x7e]{1,200}\Z")


def checked_content_type(content_type: str) -> str:
    """`content_type`, if it may be one.

    Raises:
        ConfigError: it is no text such as "application/json".
    """
    if type(content_type) is not str or not _CONTENT_TYPE.match(content_type):
        raise ConfigError(f"content_type is {content_type!r:.100}: give one such as 'application/json'")
    return content_type


def checked_event(event: str | None) -> str | None:
    """`event`, if it may be the type of one.

    Raises:
        ConfigError: it is empty, longer than 200, or holds other characters than letters, digits and `_ . -`.
    """
    if event is not None and (type(event) is not str or not _EVENT.match(event)):
        raise ConfigError(f"event is {event!r:.100}: use 1 to 200 letters, digits and _ . -, such as 'order.paid'")
    return event


def body_of(payload: Any, event: str | None, now_us: int, most_bytes: int = MOST_BYTES) -> str:
    """The body of a webhook. It is made once, and is the same to the byte on each attempt.

    bytes stand for themselves, and must be UTF-8. Anything else becomes JSON: with an `event` the object that Standard
    Webhooks recommends, `{"type": event, "timestamp": now, "data": payload}`, and else the payload alone.

    Raises:
        InvalidArguments: the payload has no JSON form, or bytes are no UTF-8.
        PayloadTooLarge: more than `most_bytes`.
        ConfigError: bytes and an event.
    """
    body = _as_it_is(payload, event) if isinstance(payload, bytes) else _json(payload, event, now_us)
    if len(body) > most_bytes:
        raise PayloadTooLarge(
            f"the webhook's body has {len(body):,} bytes, {most_bytes:,} are allowed: send an id by which the receiver "
            "can ask for the rest, or raise most_bytes="
        )
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArguments(f"the webhook's body is no UTF-8 ({error}): send text") from None


def _as_it_is(payload: bytes, event: str | None) -> bytes:
    if event is not None:
        raise ConfigError(f"event is {event!r} and the payload is bytes, which travel as they are: leave event= out")
    return payload


def _json(payload: Any, event: str | None, now_us: int) -> bytes:
    try:
        trouble = values.find_lossy_number(payload, "payload")
        if trouble is not None:
            raise InvalidArguments(f"{trouble.path} is {trouble.what}: {trouble.fix}")
        if event is None:
            return _encoder.encode(payload)
        moment = datetime.fromtimestamp(now_us / 1_000_000, UTC).isoformat(timespec="milliseconds")
        timestamp = moment.replace("+00:00", "Z")
        return _encoder.encode({"type": event, "timestamp": timestamp, "data": payload})
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"the webhook's payload has no JSON form: {clean(str(error), 200)}") from error
