"""A mail server: enough of SMTP (RFC 5321) for a real client, and a memory for every mail it took."""

from __future__ import annotations

import re
import socketserver
import threading
import time
from email.parser import BytesHeaderParser
from functools import partial
from typing import NamedTuple

from .listener import Listener


class Mail(NamedTuple):
    """One mail that was accepted."""

    message_id: str
    recipient: str
    at: float  # time.monotonic


class MailServer(Listener):
    """Accepts everything, unless told otherwise."""

    def __init__(self) -> None:
        super().__init__(partial(_Conversation, self))
        self.mails: list[Mail] = []
        self.calls: list[float] = []  # time.time of each connection, whatever becomes of it
        self.busy = False  # answer 421 to whoever comes, and hang up
        self.delay = 0.0  # seconds before it says that a mail is accepted
        self.refused: set[str] = set()  # recipients nobody knows here
        self._lock = threading.Lock()

    def take(self, recipient: str, data: bytes) -> None:
        """Remember a mail."""
        message_id = str(BytesHeaderParser().parsebytes(data)["Message-ID"]).strip("<>")
        with self._lock:
            self.mails.append(Mail(message_id, recipient, time.monotonic()))


class _Conversation(socketserver.StreamRequestHandler):
    """Client speaks, server answers, until QUIT."""

    def __init__(self, mail_server: MailServer, *handed_over: object) -> None:
        self.mail_server = mail_server
        self.recipient = ""
        super().__init__(*handed_over)  # type: ignore[arg-type]

    def handle(self) -> None:
        self.mail_server.calls.append(time.time())
        if self.mail_server.busy:
            self.say("421 mail.example is too busy, come back later")
            return
        self.say("220 mail.example at your service")
        while line := self.rfile.readline(1000):
            words = line.decode("utf-8", "replace").strip()
            verb = words[:4].upper()
            self.say(self.answer(verb, words))
            if verb == "QUIT":
                return

    def answer(self, verb: str, words: str) -> str:
        match verb:
            case "EHLO" | "HELO":
                return "250 mail.example"
            case "MAIL" | "RSET" | "NOOP":
                return "250 OK"
            case "RCPT":
                self.recipient = "".join(re.findall(r"<(.*?)>", words))
                return "550 no such user here" if self.recipient in self.mail_server.refused else "250 OK"
            case "DATA":
                return self.receive()
            case "QUIT":
                return "221 goodbye"
            case _:
                return "502 not in this example"

    def receive(self) -> str:
        self.say("354 go ahead")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            if not line:
                raise ConnectionError("the client went away in the middle of a mail")
            lines.append(line)
        # Taken first, answered later: a client killed in between does not learn that its mail is on its way.
        self.mail_server.take(self.recipient, b"".join(lines))
        time.sleep(self.mail_server.delay)
        return "250 accepted"

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())
