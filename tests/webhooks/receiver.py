"""A receiver of webhooks in a thread: it answers, or misbehaves, as it is told."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple


class Request(NamedTuple):
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[["Receiver", socket.socket, Request], None]


def answering(status: str = "200 OK", body: bytes = b"", *headers: str) -> Behaviour:
    """A proper answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return saying("\r\n".join(lines).encode() + body)


def saying(data: bytes) -> Behaviour:
    """These bytes, and the end."""
    return lambda receiver, line, request: line.sendall(data)


def hanging(receiver: Receiver, line: socket.socket, request: Request) -> None:
    """Not a word."""
    receiver.over.wait(20)


def dripping(start: bytes, drop: bytes = b"x") -> Behaviour:
    """A byte now and then, for ever: no single read lasts long."""

    def behave(receiver: Receiver, line: socket.socket, request: Request) -> None:
        line.sendall(start)
        while not receiver.over.wait(0.02):
            line.sendall(drop)

    return behave


def pouring(start: bytes, flood: bytes) -> Behaviour:
    """More and more, as fast as it is taken."""

    def behave(receiver: Receiver, line: socket.socket, request: Request) -> None:
        line.sendall(start)
        while not receiver.over.is_set():
            line.sendall(flood)

    return behave


def resetting(start: bytes = b"") -> Behaviour:
    """The connection is torn down."""

    def behave(receiver: Receiver, line: socket.socket, request: Request) -> None:
        if start:
            line.sendall(start)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return behave


class Receiver:
    """Takes requests on loopback. `behaviour` may be changed at any time; `script` is taken from first."""

    def __init__(self, behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self.behaviour = behaviour
        self.script: list[Behaviour] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.over = threading.Event()
        self.arrived = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            if self.over.is_set():
                line.close()
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(line,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, plain: socket.socket) -> None:
        line = plain
        with suppress(OSError, IndexError, ValueError), plain:  # the latter where it is no request
            plain.settimeout(20)
            if self._tls is not None:
                line = self._tls.wrap_socket(plain, server_side=True)
            with line:
                request = _read(line)
                self.requests.append(request)
                self.arrived.set()
                (self.script.pop(0) if self.script else self.behaviour)(self, line, request)

    def stop(self) -> None:
        """End what it does, and wait for that."""
        self.over.set()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            self._listener.close()
        self._listener.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


@contextmanager
def receiving(behaviour: Behaviour | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver for the length of the block."""
    receiver = Receiver(behaviour or answering(), tls)
    try:
        yield receiver
    finally:
        receiver.stop()


def _read(line: socket.socket) -> Request:
    with line.makefile("rb") as stream:
        path = stream.readline().split()[1].decode()
        headers: dict[str, str] = {}
        while (text := stream.readline().decode("latin-1").strip()) != "":
            name, _, value = text.partition(":")
            headers[name.lower()] = value.strip()
        return Request(path, headers, stream.read(int(headers.get("content-length", 0))))
