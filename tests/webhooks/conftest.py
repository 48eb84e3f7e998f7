"""Receivers on loopback."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.servers.certificate import certificate
from tests.webhooks.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The settings of a server for https://127.0.0.1, and of a client that trusts it."""
    certificate_file, key_file = certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate_file, key_file)
    return server, ssl.create_default_context(cafile=str(certificate_file))


@pytest.fixture
def full() -> Iterator[Callable[[], int]]:
    """Makes the port of a listener that takes no connection: its queue is full."""
    with ExitStack() as stack:

        def make() -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            port: int = listener.getsockname()[1]
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
            return port

        yield make
