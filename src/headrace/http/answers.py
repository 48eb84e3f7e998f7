"""Answers that are not the handler's: problems (RFC 9457), and a stored answer played again."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

Headers = tuple[tuple[str, str], ...]

# Never kept, whatever the settings say: they belong to one client, one moment, or one connection (B158)
NEVER_KEPT = frozenset({"set-cookie", "set-cookie2", "date", "age", "server"}) | {
    *("content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade"),
    *("proxy-connection", "proxy-authenticate", "www-authenticate", "authentication-info"),
}
KEPT = frozenset({"cache-control", "etag", "last-modified", "link", "location", "vary"}) | {
    *("content-disposition", "content-encoding", "content-language", "content-location", "content-type"),
}
REPLAYED = ("Idempotent-Replayed", "true")
_TYPE = "urn:headrace:idempotency-key:"
BODILESS = (204, 205, 304)
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")


class Answer(msgspec.Struct, frozen=True):
    """What is sent to a client."""

    status: int
    headers: Headers = ()
    body: bytes = b""

    def with_length(self) -> Headers:
        """The headers with the length of the body, where such an answer may have one."""
        if self.status in BODILESS:
            return self.headers
        return (*self.headers, ("Content-Length", str(len(self.body))))


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer as the store keeps it, as JSON. `replayable`: false where only the status is known."""

    status: int
    headers: Headers = ()
    body: bytes = b""  # base64 in JSON
    replayable: bool = True

    @property
    def sound(self) -> bool:
        """Whether a server can send it: nothing read from a store, or handed over by a handler, is trusted."""
        return 200 <= self.status <= 599 and all(
            _HEADER_NAME.match(name) and _HEADER_VALUE.match(value) for name, value in self.headers
        )


class Refused(Exception):
    """The request is answered without its handler."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def encode(stored: Stored) -> bytes:
    """For the store."""
    return msgspec.json.encode(stored)


def replay(result: bytes | None) -> Answer | None:
    """The stored answer, to be sent again; None where it cannot be."""
    try:
        stored = msgspec.json.decode(result or b"", type=Stored)
    except msgspec.DecodeError:
        return None
    if not (stored.replayable and stored.sound):
        return None
    return Answer(stored.status, (*stored.headers, REPLAYED), stored.body)


def kept(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> Headers:
    """Those headers that may be stored."""
    return tuple((name, value) for name, value in headers if name.lower() in names and name.lower() not in NEVER_KEPT)


def problem(status: int, kind: str, title: str, detail: str, retry_after: int | None = None) -> Answer:
    """A problem document. `retry_after` in seconds."""
    body = msgspec.json.encode({"type": _TYPE + kind, "title": title, "status": status, "detail": detail})
    headers: Headers = (("Content-Type", "application/problem+json"),)
    if retry_after is not None:
        headers = (*headers, ("Retry-After", str(retry_after)))
    return Answer(status, headers, body)


def bad_key(detail: str) -> Answer:
    """The header cannot be read."""
    return problem(400, "malformed", "Idempotency-Key is malformed", detail)


def missing() -> Answer:
    """There is no header, and there must be."""
    detail = "This request must carry an Idempotency-Key header with a unique value such as a UUID."
    return problem(400, "missing", "Idempotency-Key is missing", detail)


def in_progress(retry_after: int) -> Answer:
    """The first request is being handled. The only refusal after which the same request may be sent again."""
    detail = "A request with this Idempotency-Key is being processed. Send the same request again later."
    return problem(409, "in-progress", "A request is outstanding for this Idempotency-Key", detail, retry_after)


def other_request() -> Answer:
    """The key stands for another request."""
    detail = "This Idempotency-Key was used with another method, path, query or body. Use a new key for a new request."
    return problem(422, "other-request", "Idempotency-Key is already used", detail)


def not_replayable() -> Answer:
    """The first request has been handled, and its answer was not kept."""
    detail = (
        "A request with this Idempotency-Key was processed, and its answer cannot be sent again. It is not processed a "
        "second time: look up what came of it."
    )
    return problem(409, "not-replayable", "The answer to this Idempotency-Key was not kept", detail)


def incomplete() -> Answer:
    """The client has gone before all of its body was there."""
    return problem(400, "incomplete", "The request is incomplete", "The body is shorter than its Content-Length.")


def too_large(limit: int) -> Answer:
    """The body does not fit into memory as the settings define it."""
    detail = f"A request with an Idempotency-Key may have a body of at most {limit} bytes."
    return problem(413, "too-large", "The request is too large", detail)


def outage() -> Answer:
    """The store cannot be asked."""
    detail = (
        "Whether this request was processed before cannot be told at the moment. Send the same request again later."
    )
    return problem(503, "store-unavailable", "Idempotency-Key cannot be checked", detail, 5)


def failed() -> Answer:
    """Stands for the answer of a handler that has made none."""
    detail = (
        "The request with this Idempotency-Key failed before it had an answer. It is not processed a second time, for "
        "it may have had an effect."
    )
    return problem(500, "failed", "The request has failed", detail)
