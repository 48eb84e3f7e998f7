"""A small HTTP client for one POST to one address: of the standard library, blocking, for a handler's own thread.

It follows no redirect, knows no proxy and no cookie, resolves no name, and reads no more than it must. Every wait ends
at the same moment, whatever the other side drips: a timeout for each read alone would last as long as it likes.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import msgspec

from headrace.core.ports import Clock
from headrace.errors import WebhookError
from headrace.webhooks.addresses import Address
from headrace.webhooks.guard import Target

HEAD_BYTES = 65_536  # of status line and headers that are read at most
BODY_BYTES = 4_096  # of an answer's body that are kept
BUFFER = 8_192
CONNECT_S = 5.0  # for the connection to one address: then the next one is tried


class Answer(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes = b""  # its first 4,096 bytes
    whole: bool = True  # the body is all there
    retry_after: str | None = None  # the header


class Client:
    """Sends requests.

    Args:
        clock: measures the timeouts.
        timeout: seconds for a whole exchange, from the first connection to the end of the answer.
        tls: by default the certificate authorities of this machine.
    """

    def __init__(self, clock: Clock, *, timeout: float = 15, tls: ssl.SSLContext | None = None) -> None:
        self._clock = clock
        self._timeout = timeout
        self._given_tls = tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Reading this machine's authorities takes a while: whoever only enqueues never does."""
        return self._given_tls or ssl.create_default_context()

    def post(self, target: Target, addresses: Sequence[Address], headers: Mapping[str, str], body: bytes) -> Answer:
        """Send one request to the first of `addresses` that takes the connection.

        Raises:
            WebhookError: no answer, or none that can be read, in time.
        """
        deadline = _Deadline(self._clock, self._timeout)
        try:
            with self._connect(target, addresses, deadline) as plain, self._secure(plain, target, deadline) as line:
                return _exchange(_Line(line, deadline), target, headers, body)
        except TimeoutError:
            raise WebhookError(f"no answer within {self._timeout:g} s") from None
        except http.client.HTTPException as error:
            raise WebhookError(f"the answer is no HTTP: {type(error).__name__} {error}".strip()[:200]) from error
        except (OSError, ValueError) as error:  # ValueError: lengths that are none
            raise WebhookError(f"{type(error).__name__}: {error}"[:200]) from error

    def _connect(self, target: Target, addresses: Iterable[Address], deadline: _Deadline) -> socket.socket:
        """To an address that has been checked, as it is: nothing is resolved a second time."""
        problem: OSError = OSError("there is no address")
        for address in addresses:
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            try:
                line = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:  # this machine has no IPv6
                problem = error
                continue
            try:
                line.settimeout(min(deadline.left(), CONNECT_S))
                line.connect((str(address), target.port))
            except OSError as error:
                line.close()
                problem = error
            else:
                # the body leaves in a packet of its own, which must not wait until that of the headers is confirmed
                line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return line
        if isinstance(problem, TimeoutError):
            raise WebhookError(f"no connection to {target.authority} in time")
        raise problem

    def _secure(self, line: socket.socket, target: Target, deadline: _Deadline) -> socket.socket:
        if target.scheme == "http":
            return line
        line.settimeout(deadline.left())  # one for the whole handshake
        return self._tls.wrap_socket(line, server_hostname=target.host.rstrip("."))


class _Deadline:
    """The moment at which all waiting ends."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds, more than 0.

        Raises:
            TimeoutError: it is over.
        """
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class _Line:
    """As much of a socket as `http.client` uses, with one deadline over all of it."""

    def __init__(self, line: socket.socket, deadline: _Deadline) -> None:
        self._line = line
        self._deadline = deadline
        self._incoming = _Buffered(_Incoming(line, deadline), BUFFER)

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._line.settimeout(self._deadline.left())
            rest = rest[self._line.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._incoming

    def close(self) -> None:
        """Whoever opened the socket closes it: the answer is still being read when the request's end comes."""


class _Buffered(io.BufferedReader):
    """One for all answers to a request: what was read of the next one must not go with the one before it."""

    def close(self) -> None:
        """The socket is closed by whoever opened it."""


class _Incoming(io.RawIOBase):
    """What comes in, up to a length and until a deadline."""

    def __init__(self, line: socket.socket, deadline: _Deadline) -> None:
        self._line = line
        self._deadline = deadline
        self._room = HEAD_BYTES + BODY_BYTES + BUFFER

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._line.settimeout(self._deadline.left())
        count = self._line.recv_into(buffer)
        self._room -= count
        if self._room < 0:
            raise http.client.HTTPException(f"more than {HEAD_BYTES:,} bytes before its body")
        return count


def _exchange(line: _Line, target: Target, headers: Mapping[str, str], body: bytes) -> Answer:
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.auto_open = 0  # a connection of its own would be one that nobody has checked
    connection.sock = cast("socket.socket", line)
    fixed = {"Host": target.authority, "Accept-Encoding": "identity", "Connection": "close"}
    connection.request("POST", target.path, body, {**fixed, **headers})
    response = _response(line)
    while 101 < response.status < 200:  # "early hints" and the like: the answer is yet to come
        response = _response(line)
    text, whole = _body_of(response)
    return Answer(response.status, text, whole, response.headers.get("Retry-After"))


def _response(line: _Line) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(cast("socket.socket", line), method="POST")
    response.begin()
    return response


def _body_of(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    """The beginning of the body, and whether that is all of it. The status stands, whatever becomes of the body."""
    parts: list[bytes] = []
    size = 0
    try:
        while size <= BODY_BYTES and (part := response.read1(BODY_BYTES + 1 - size)):
            parts.append(part)
            size += len(part)
    except (OSError, ValueError, http.client.HTTPException):
        return b"".join(parts)[:BODY_BYTES], False
    # what is left of the announced length never came
    return b"".join(parts)[:BODY_BYTES], size <= BODY_BYTES and not response.length
