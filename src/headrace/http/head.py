"""What is known of a request before its body is read, whom it is from, and what tells it from another one."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import ConfigError
from headrace.http.header import HEADER

KEY_HEADER = HEADER.lower()


class RequestHead(ABC):
    """Method, path, query and headers of a request, in ASGI and WSGI alike."""

    __slots__ = ("method", "path", "query", "scope")

    def __init__(self, method: str, path: str, query: bytes, scope: Mapping[str, Any]) -> None:
        self.method = method
        self.path = path  # decoded, with the prefix under which the app is mounted
        self.query = query  # as it was sent
        self.scope = scope  # the scope of ASGI, or WSGI's environ

    @abstractmethod
    def values(self, name: str) -> list[str]:
        """Of all headers of that name, which is in small letters; decoded as Latin-1."""

    def header(self, name: str) -> str | None:
        """The value of a header, those of several joined by a comma; None where there is none."""
        found = self.values(name.lower())
        return ", ".join(found) if found else None


Principal = Callable[[RequestHead], str | None]


def by_authorization(head: RequestHead) -> str | None:
    """The `Authorization` header: clients with other credentials have keys of their own."""
    return head.header("authorization")


def by_header(name: str) -> Principal:
    """A header that names the caller, set by a proxy or a gateway that can be trusted."""

    def principal(head: RequestHead) -> str | None:
        return head.header(name)

    return principal


def by_cookie(name: str) -> Principal:
    """The cookie of a session, such as "sessionid" of Django and "session" of Flask and Starlette.

    Where there are several of that name, all of them count.
    """

    def principal(head: RequestHead) -> str | None:
        # not by http.cookies: it drops all where one is odd, as of somebody else's script, and frameworks do not; who
        # is known to them must not share the keys of those who are unknown
        pairs = (pair.partition("=") for value in head.values("cookie") for pair in value.split(";"))
        return "; ".join(value.strip() for found, _, value in pairs if found.strip() == name) or None

    return principal


def declared_length(text: str | None) -> int | None:
    """What a Content-Length says; None where it says nothing that can be understood."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text[-18:]) if len(text.lstrip("0")) <= 18 else sys.maxsize


def record_key(principal: str | None, key: str) -> str:
    """One text for both, 1 to 320 characters; no two pairs have the same. Who the principal is stays unknown.

    Raises:
        ConfigError: the principal is no text, so that the callable that names it is wrong.
    """
    if principal is None:
        return f"-:{key}"
    if not isinstance(principal, str):
        raise ConfigError(f"principal answered {principal!r:.80}: it must be a str, such as str(user.id), or None")
    return f"{hashlib.sha256(principal.encode('utf-8', 'surrogatepass')).hexdigest()}:{key}"


def fingerprint(method: str, path: str, query: bytes, body: bytes) -> bytes:
    """32 bytes that tell requests apart: SHA-256 over method, path, query and body, each with its length."""
    digest = hashlib.sha256()
    for part in (method.encode(), path.encode("utf-8", "surrogatepass"), query, body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
