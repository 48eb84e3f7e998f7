"""A mail server on loopback: enough of SMTP for a real client, with STARTTLS and AUTH PLAIN."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any


class Mailbox(socketserver.ThreadingTCPServer):
    """Takes every mail, unless told otherwise."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.tls = tls
        self.mails: list[EmailMessage] = []
        self.logins: list[tuple[str, str]] = []
        self.answers: dict[str, str] = {}  # verb -> what it says instead
        self.encrypted: list[bool] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Conversation(socketserver.StreamRequestHandler):
    server: Mailbox
    encrypted = False

    def handle(self) -> None:
        with suppress(OSError, ValueError), self.connection_closed():
            self.say("220 mailbox")
            while line := self.rfile.readline(1000):
                words = line.decode("utf-8", "replace").strip()
                verb = words[:8].partition(" ")[0].upper()
                if verb in self.server.answers:
                    self.say(self.server.answers[verb].format(words=words))
                    continue
                getattr(self, f"on_{verb.lower()}", self.unknown)(words)
                if verb == "QUIT":
                    return

    @contextmanager
    def connection_closed(self) -> Iterator[None]:
        """The encrypted one is another than the one that the server closes."""
        try:
            yield
        finally:
            for stream in (self.rfile, self.wfile, self.connection):
                stream.close()

    def finish(self) -> None:
        """Done."""

    def say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")

    def unknown(self, words: str) -> None:
        self.say("502 not here")

    def ok(self, words: str) -> None:
        self.say("250 OK")

    on_mail = on_rcpt = on_rset = on_noop = ok

    def on_quit(self, words: str) -> None:
        self.say("221 goodbye")

    def on_ehlo(self, words: str) -> None:
        more = "AUTH PLAIN" if self.encrypted or self.server.tls is None else "STARTTLS"
        self.say(f"250-mailbox\r\n250 {more}")

    def on_starttls(self, words: str) -> None:
        assert self.server.tls is not None
        self.say("220 go ahead")
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)  # type: ignore[assignment]
        self.encrypted = True

    def on_auth(self, words: str) -> None:
        _, user, password = base64.b64decode(words.split()[2]).decode().split("\0")
        self.server.logins.append((user, password))
        self.say("235 welcome")

    def on_data(self, words: str) -> None:
        self.say("354 go ahead")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line)
        parsed: Any = BytesParser(policy=default).parsebytes(b"".join(lines))
        self.server.encrypted.append(self.encrypted)
        self.server.mails.append(parsed)
        self.say("250 taken")


@contextmanager
def mailbox(tls: ssl.SSLContext | None = None) -> Iterator[Mailbox]:
    """A mail server for the length of the block."""
    with Mailbox(tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)
