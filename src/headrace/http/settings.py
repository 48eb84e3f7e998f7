"""The settings of the middleware, checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Literal

import msgspec

from headrace.core.durations import Duration, micros
from headrace.errors import ConfigError
from headrace.http.answers import KEPT, NEVER_KEPT
from headrace.http.head import Principal, RequestHead, by_authorization

LEAST_LEASE_S = 1.0
MOST_RESPONSE = 700_000  # bytes: as JSON it stays below 1 MB, which every store keeps
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"})
# "Nothing was done": who are you, it took too long to hear you, it clashes, not now (B158)
UNSTORED = frozenset({401, 408, 409, 429})
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,100}\Z")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What both middlewares take as keyword arguments.

    Args:
        name: keeps the keys of one web app apart from those of another on the same store. "" by default.
        methods: whose requests have keys. POST and PATCH by default. Other requests pass through.
        required: whether a request without a key is answered 400; a callable decides by the request. By default it
            passes through.
        strict: take only keys in quotation marks, as the specification has them.
        principal: whom a key belongs to. A callable that returns a str, or None for somebody unknown; by default the
            `Authorization` header. All who are unknown share their keys.
        lease: how long after the death of a server a key stays taken. 30 s by default, at least 1 s.
        lifetime: how long an answer is remembered. 24 h by default.
        replay_errors: "always": an answer of 500 to 599 is kept as any other, since the handler may have had an effect
            before it failed. "never": such a key is given back, and a repeat runs the handler again.
        unstored: statuses after which the key is given back, besides 401, 408, 409 and 429: the handler has done
            nothing.
        headers: names of response headers that are kept besides the usual ones. Set-Cookie never is.
        max_request: bytes. A larger body is answered 413. 1,000,000 by default.
        max_response: bytes. The key of a larger answer is done, but a repeat is answered 409. 200,000 by default, at
            most 700,000.
        outage: what happens while the store cannot be asked: "refuse", 503, or "run", unguarded.

    Raises:
        ConfigError: a value is out of range; names it.
    """

    name: str = ""
    methods: Collection[str] = ("POST", "PATCH")
    required: bool | Callable[[RequestHead], bool] = False
    strict: bool = False
    principal: Principal = by_authorization
    lease: Duration = 30
    lifetime: Duration = 24 * 3600
    replay_errors: Literal["always", "never"] = "always"
    unstored: Collection[int] = ()
    headers: Collection[str] = ()
    max_request: int = 1_000_000
    max_response: int = 200_000
    outage: Literal["refuse", "run"] = "refuse"

    def __post_init__(self) -> None:
        self._check_names()
        if micros(self.lease, "lease") < LEAST_LEASE_S * 1_000_000:
            raise ConfigError(f"lease is {self.lease!r}: it must be at least {LEAST_LEASE_S:g} s")
        if micros(self.lifetime, "lifetime") <= 0:
            raise ConfigError(f"lifetime is {self.lifetime!r}: it must be greater than 0")
        for field, allowed in (("replay_errors", ("always", "never")), ("outage", ("refuse", "run"))):
            if getattr(self, field) not in allowed:
                raise ConfigError(f"{field} is {getattr(self, field)!r}: it must be {' or '.join(map(repr, allowed))}")
        for callback, name in ((self.principal, "principal"), (self.required, "required")):
            if not callable(callback) and not (name == "required" and isinstance(callback, bool)):
                raise ConfigError(f"{name} is {callback!r}: hand over a callable that takes a RequestHead")
        if type(self.max_request) is not int or self.max_request < 1:
            raise ConfigError(f"max_request is {self.max_request!r}: it must be a whole number of bytes, at least 1")
        if type(self.max_response) is not int or not 0 <= self.max_response <= MOST_RESPONSE:
            raise ConfigError(f"max_response is {self.max_response!r}: it must lie between 0 and {MOST_RESPONSE}")

    def _check_names(self) -> None:
        if type(self.name) is not str or (self.name and not _NAME.match(self.name)):
            raise ConfigError(f"name is {self.name!r}: use letters, digits, '_', '.' and '-', at most 100")
        for field in ("methods", "unstored", "headers"):
            if isinstance(getattr(self, field), str) or not isinstance(getattr(self, field), Collection):
                raise ConfigError(f"{field} is {getattr(self, field)!r}: hand over several, as in a tuple")
        for status in self.unstored:
            if type(status) is not int or not 400 <= status <= 599:
                raise ConfigError(
                    f"unstored holds {status!r}: it must be a status of 400 to 599; after others the handler has had "
                    "its effect, and a repeat would have it again"
                )
        if safe := sorted(SAFE & self.all_methods):
            raise ConfigError(f"methods holds {', '.join(safe)}: such requests change nothing and need no key")
        if never := sorted({name.lower() for name in self.headers} & NEVER_KEPT):
            raise ConfigError(f"headers holds {', '.join(never)}: it belongs to one answer, and is never replayed")

    @property
    def all_methods(self) -> frozenset[str]:
        """In capitals."""
        return frozenset(method.upper() for method in self.methods)

    @property
    def all_unstored(self) -> frozenset[int]:
        """With those that never are stored."""
        return UNSTORED.union(self.unstored)

    @property
    def all_headers(self) -> frozenset[str]:
        """In small letters, with the usual ones."""
        return KEPT.union(name.lower() for name in self.headers)
