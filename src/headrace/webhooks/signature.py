"""The signature of Standard Webhooks 1.0: `v1`, HMAC-SHA256 over `id.timestamp.body`.

Source: the Standard Webhooks specification, "Signature scheme". A secret is `whsec_` and the base64 of 24 to 64 random
bytes; several signatures are separated by a space, so that a secret can be changed while the old one still counts.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as randomness
from collections.abc import Iterable, Mapping
from typing import Any

from headrace.drivers.system import SystemClock
from headrace.errors import ConfigError, SignatureInvalid

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64
TOLERANCE_S = 300

# What is signed is delimited by full stops: an id with one could be read as another message. No more than 150
# characters, since the jobs of hooks are named after it, in full.
_ID = re.compile(r"[A-Za-z0-9_~:@+-]{1,150}\Z")
_MOMENT = re.compile(r"[0-9]{1,12}\Z")


def new_secret() -> str:
    """A new secret for one endpoint: `whsec_` and the base64 of 32 random bytes."""
    return PREFIX + base64.b64encode(randomness.token_bytes(32)).decode("ascii")


def checked_message_id(id: str) -> str:
    """`id`, if it can be signed.

    Raises:
        ConfigError: it is empty, longer than 150, or holds other characters than letters, digits and `_ ~ : @ + -`.
    """
    if type(id) is not str or not _ID.match(id):
        raise ConfigError(f"id is {id!r:.100}: use 1 to 150 letters, digits and _ ~ : @ + -, and no full stop")
    return id


def key_of(secret: str) -> bytes:
    """The bytes that a secret stands for.

    Raises:
        ConfigError: it is no `whsec_` secret of 24 to 64 bytes. The message does not show it.
    """
    if type(secret) is not str or not secret.startswith(PREFIX):
        raise ConfigError(f"a webhook secret must be a text that starts with {PREFIX!r}: make one with new_secret()")
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise ConfigError(f"a webhook secret is no base64 after {PREFIX!r}: make one with new_secret()") from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ConfigError(
            f"a webhook secret holds {len(key)} bytes: it must be {LEAST_BYTES} to {MOST_BYTES}, see new_secret()"
        )
    return key


def sign(secret: str | Iterable[str], id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: one signature for each secret, separated by a space.

    `timestamp` is the moment of the attempt in whole seconds since the epoch.

    Raises:
        ConfigError: a secret or the id is none, there is no secret at all, or `body` are no bytes.
    """
    keys = [key_of(one) for one in each(secret)]
    _check_body(body)
    if not keys:
        raise ConfigError("no webhook secret was given: name at least one")
    return " ".join(_signature(key, checked_message_id(id), str(timestamp), body) for key in keys)


def verify(
    secret: str | Iterable[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: int = TOLERANCE_S,
    now: float | None = None,
) -> str:
    """For receivers: make sure that a request was signed with one of the secrets, and lately. Returns its `webhook-id`.

    `body` is the request's body as it came, before any parsing. `headers` are looked up without regard to case.
    `tolerance`: seconds by which `webhook-timestamp` may differ from `now`, either way; `now` is in seconds since the
    epoch, by default this machine's clock. The same id may come again: remember those that you have dealt with.

    Raises:
        SignatureInvalid: a header is missing, the timestamp is too far off, or no signature fits.
        ConfigError: a secret is none, `body` are no bytes, or `headers` no mapping.
    """
    keys = [key_of(one) for one in each(secret)]
    _check_body(body)
    if not hasattr(headers, "items"):
        raise ConfigError(f"headers is {headers!r:.100}: give the request's headers by name, as a dict has them")
    found = {name.lower(): value for name, value in headers.items()}
    try:
        id, moment, signatures = (found[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise SignatureInvalid(f"the request has no header {missing.args[0]}") from None
    if not _MOMENT.match(moment):
        raise SignatureInvalid("webhook-timestamp is no number of seconds since the epoch")
    now = SystemClock().unix_us() / 1_000_000 if now is None else now
    if abs(now - int(moment)) > tolerance:
        raise SignatureInvalid(
            f"webhook-timestamp is more than {tolerance} s from now: an old request, or a wrong clock"
        )
    expected = [_signature(key, id, moment, body).encode() for key in keys]
    # each with each, and no early end: how long it takes says nothing about the secret
    fits = [hmac.compare_digest(one, given.encode()) for one in expected for given in signatures.split()]
    if not any(fits):
        raise SignatureInvalid
    return id


def _check_body(body: object) -> None:
    if not isinstance(body, bytes | bytearray | memoryview):
        raise ConfigError(
            f"body is of type {type(body).__name__}: give the bytes as they were sent, before any decoding or parsing"
        )


def each(secret: object) -> tuple[Any, ...]:
    """One secret or several; what can be neither is left for `key_of` to refuse."""
    return tuple(secret) if isinstance(secret, Iterable) and not isinstance(secret, str | bytes) else (secret,)


def _signature(key: bytes, id: str, moment: str, body: bytes) -> str:
    digest = hmac.digest(key, b".".join((id.encode(), moment.encode(), body)), "sha256")
    return "v1," + base64.b64encode(digest).decode("ascii")
