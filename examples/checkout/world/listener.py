"""A TCP server that can be switched off and on."""

from __future__ import annotations

import random
import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Any

Handler = Callable[[Any, Any, socketserver.BaseServer], socketserver.BaseRequestHandler]


_handed_out: set[int] = set()


def free_port() -> int:
    """A port nobody listens on, below the range from which systems take the ports of outgoing connections.

    A server that goes down and comes back wants its port again. From within that range, a client's connection could
    take it meanwhile, or a client could even be connected to itself.
    """
    for port in random.sample(range(20_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _handed_out:
            _handed_out.add(port)
            return port
    raise OSError("none of 200 ports on 127.0.0.1 is free")


class Listener:
    """One thread per connection; `down` refuses new connections and cuts those that are open."""

    def __init__(self, handler: Handler) -> None:
        self.port = free_port()
        self._handler = handler
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def up(self) -> None:
        """Listen, on the same port every time."""
        if self._server is None:
            self._server = _Server(("127.0.0.1", self.port), self._handler)
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
            self._thread.start()

    def down(self) -> None:
        """Stop as a server does whose machine lost its power. May be called twice."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None and thread is not None:
            server.shutdown()
            thread.join()
            server.server_close()
            server.cut_connections()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Handler) -> None:
        self._open: set[Any] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        """End every conversation in mid-sentence."""
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has just ended by itself
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle of a conversation is what this world is made for."""
