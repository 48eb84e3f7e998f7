"""Once: what keeps a job, a request or a piece of code from taking effect a second time. Here, the policy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, Literal

import msgspec

from headrace.core import values
from headrace.core.keys import Keyed
from headrace.errors import ConfigError, InvalidArguments

RESULT_BYTES = 64 * 1024  # of a stored result as JSON

_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook)


class Once(msgspec.Struct, Keyed, frozen=True):
    """The first run with a key takes effect; later ones answer with what it left, and do not execute.

    `key` is a template over argument names ("charge:{order_id}"; braces that are meant are doubled), or a callable
    that takes the arguments and returns a str. It counts within the task. `lifetime` (default 24 h): how long a
    result is remembered, from the moment it is stored; after that the key is new. `failures`: "free", a run that fails
    for good leaves the key to the next one, or "keep", its failure is stored and later runs fail with it. A failed
    attempt that is retried never keeps the key from its retry.

    Raises:
        ConfigError: the template is empty or reaches into arguments (`{order.id}`), or a value is out of range.
    """

    option: ClassVar[str] = "once"
    example: ClassVar[str] = "charge:{order_id}"

    key: str | Callable[..., str]
    lifetime: timedelta | float | str = timedelta(hours=24)
    failures: Literal["free", "keep"] = "free"

    def __post_init__(self) -> None:
        if self.failures not in ("free", "keep"):
            raise ConfigError(f"once: failures is {self.failures!r}: it must be 'free' or 'keep'")
        self.check()


def task_scope(name: str) -> str:
    """What keeps the keys of a task apart from all others."""
    return f"task:{name}"


def encode_result(value: object) -> bytes:
    """A result as JSON.

    Raises:
        InvalidArguments: it is no JSON value, or has more than 64 KiB.
    """
    try:
        raw = _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"{value!r:.80} cannot be encoded as JSON: {error}") from error
    if len(raw) > RESULT_BYTES:
        raise InvalidArguments(f"it has {len(raw):,} bytes, {RESULT_BYTES:,} are allowed")
    return raw


def decode_failure(raw: bytes | None) -> tuple[str, str]:
    """Type and message of a failure that is kept. Nothing read from a store is trusted."""
    try:
        failure = msgspec.json.decode(raw or b"", type=_Failure)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "OnceFailed", ""
    return failure.type, failure.message


class _Failure(msgspec.Struct):
    type: str = "OnceFailed"
    message: str = ""


def fingerprint(arguments: bytes | msgspec.Raw) -> bytes:
    """32 bytes that tell calls apart: SHA-256 of the arguments as JSON, in the order of their names."""
    return hashlib.sha256(msgspec.json.encode(msgspec.json.decode(arguments), order="sorted")).digest()
