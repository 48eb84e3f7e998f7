"""The envelope: the one JSON message a job travels in, readable and writable from any language.

The bytes in a store are never encoded anew, so fields this version does not know survive every retry and replay.
`docs/envelope.md` describes the format for other languages; `schema()` is its JSON Schema.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from headrace.errors import NewerEnvelope, PayloadTooLarge, UnreadableEnvelope

VERSION = 1
MAX_BODY = 1_000_000  # bytes of a whole envelope, arguments included
MAX_DEPTH = 64  # levels of arrays and objects in the arguments, their own object included


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, tag_field="v", tag=VERSION):
    """One job as it is stored. Absent fields mean their defaults; only `v`, `id`, `task` and `args` are required.

    Relative limits (`*_in_us`) count from the enqueue or the last replay, absolute ones (`*_at_us`) are
    microseconds since the Unix epoch on the store's clock.
    """

    v: ClassVar[int] = VERSION

    id: str
    task: str
    args: msgspec.Raw  # a JSON object: argument names and values
    queue: str = "default"
    priority: int = 0
    headers: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    tenant: str | None = None
    expires_in_us: int | None = None  # not started by then: expired
    expires_at_us: int | None = None
    deadline_in_us: int | None = None  # no run starts after
    deadline_at_us: int | None = None
    timeout_us: int | None = None  # one run; absent: the task's own
    once_key: str | None = None
    circuit: str | None = None
    batch: str | None = None
    chain: str | None = None
    code_version: str | None = None
    trace: str | None = None  # W3C traceparent
    unique_until: Literal["end", "start"] | None = None
    unique_us: int | None = None
    unique: str | None = None


class _Head(msgspec.Struct):
    """What is read of a message that is no envelope, to say why."""

    v: Any = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
_head_decoder = msgspec.json.Decoder(_Head)
_EMPTY = msgspec.Raw(b"{}")
_BRACE = ord("{")
_HEAD = b'{"v":1,'


def encode(envelope: Envelope) -> bytes:
    """The envelope as JSON.

    Raises:
        PayloadTooLarge: it has more than `MAX_BODY` bytes.
    """
    return checked(_encoder.encode(envelope), envelope.task)


def decode(body: bytes) -> Envelope:
    """The envelope in `body`. Fields that are not known are passed over.

    Raises:
        UnreadableEnvelope: it is no JSON, or no envelope.
        NewerEnvelope: it is of a newer version.
    """
    try:
        envelope = _decoder.decode(body)
        # our own begin like this; in others the version stands anywhere, but without one nobody knows the format (B098)
        versioned = body.startswith(_HEAD) or _head_decoder.decode(body).v is not None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: a message nested 100,000 deep must not take the worker down (B102)
        raise _problem(body, error) from None
    if not versioned:
        raise UnreadableEnvelope("the message is no envelope: it has no field 'v', the version of its format")
    if memoryview(envelope.args)[0] != _BRACE:
        raise UnreadableEnvelope("the field 'args' of the message is not a JSON object")
    return envelope


def _problem(body: bytes, error: Exception) -> UnreadableEnvelope:
    if isinstance(error, RecursionError):
        return UnreadableEnvelope("the message is nested too deep to be read")
    try:
        version = _head_decoder.decode(body).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UnreadableEnvelope(f"the message is not a JSON object: {error}")
    if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        return NewerEnvelope(
            f"the message is an envelope of version {version}, this worker reads up to {VERSION}: update the worker"
        )
    return UnreadableEnvelope(f"the message is no envelope: {error}")


def checked(body: bytes, task: str) -> bytes:
    """`body`, unless it is too large.

    Raises:
        PayloadTooLarge: it has more than `MAX_BODY` bytes.
    """
    if len(body) > MAX_BODY:
        raise PayloadTooLarge(
            f"a job of task {task!r} would have {len(body):,} bytes, {MAX_BODY:,} are allowed: "
            "store the data elsewhere and pass its id"
        )
    return body


class Template:
    """An envelope with everything but id, arguments and unique key filled in: bodies are put together, not encoded.

    This makes up most of the speed of enqueueing; `Template(envelope).body(...)` means the same as `encode`.
    """

    __slots__ = ("_head", "_middle", "_tail", "task")

    def __init__(self, envelope: Envelope) -> None:
        self.task = envelope.task
        whole = _encoder.encode(msgspec.structs.replace(envelope, id="", args=_EMPTY, unique=None))
        self._head = b'{"v":%d,"id":"' % VERSION
        self._middle = b'","task":' + _encoder.encode(envelope.task) + b',"args":'
        fixed = self._head + self._middle
        if not whole.startswith(fixed + b"{}"):
            raise AssertionError("the order of the envelope's fields has changed")
        self._tail = whole[len(fixed) + 2 :]

    def body(self, id: str, args: bytes, unique: str | None = None, once: str | None = None) -> bytes:
        """The body of one job. `id` must need no escaping in JSON.

        Raises:
            PayloadTooLarge: it has more than `MAX_BODY` bytes.
        """
        tail = self._tail if unique is None else b'%b,"unique":%b}' % (self._tail[:-1], _encoder.encode(unique))
        if once is not None:
            tail = b'%b,"once_key":%b}' % (tail[:-1], _encoder.encode(once))
        body = b"".join((self._head, id.encode(), self._middle, args, tail))
        return body if len(body) <= MAX_BODY else checked(body, self.task)


_MEANINGS = {
    "v": "major version of the format",
    "id": "the job's id; enqueueing an id again makes no second job. A UUID, version 7, is best",
    "task": "name of the task",
    "args": "argument names and values, as the task's annotations ask for them",
    "queue": "the queue it waits in",
    "priority": "higher runs first within the queue",
    "headers": "for programs: handlers read them from the current job",
    "tags": "for people",
    "tenant": "whose job it is",
    "expires_in_us": "expired if not started this long after its enqueue or last replay",
    "expires_at_us": "the same as a moment",
    "deadline_in_us": "no run, first or repeated, starts later than this after its enqueue or last replay",
    "deadline_at_us": "the same as a moment",
    "timeout_us": "of one run; absent: the task's own",
    "once_key": "of all jobs of the task with this key one takes effect; absent: the task's own way to make it",
    "circuit": "reserved",
    "batch": "reserved",
    "chain": "reserved",
    "code_version": "version of the program that enqueued",
    "trace": "W3C traceparent of the enqueue",
    "unique_until": "whether the unique key is free when the job has ended or when it starts; absent: end",
    "unique_us": "lifetime of a unique key whose job has vanished; absent: 24 h",
    "unique": "while an unfinished job of the queue holds this key, no other one with it is stored",
}


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the envelope, for programs in other languages."""
    _, definitions = msgspec.json.schema_components([Envelope])
    envelope = msgspec.json.decode(msgspec.json.encode(definitions["Envelope"]))  # lists where it has tuples
    properties = envelope["properties"]
    properties["v"] = {"const": VERSION}
    properties["args"] = {"type": "object"}
    for name, bounds in {
        "id": {"minLength": 1, "maxLength": 200},
        "task": {"minLength": 1},
        "queue": {"minLength": 1, "maxLength": 200},
        "priority": {"minimum": -100, "maximum": 100},
    }.items():
        properties[name] |= bounds
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headrace envelope",
        "description": "One job of headrace. Fields that are not listed are kept and passed over.",
        "type": "object",
        "properties": {name: {"description": _MEANINGS[name], **field} for name, field in properties.items()},
        "required": envelope["required"],
    }
