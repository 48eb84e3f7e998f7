"""HTTP, as the servers of this world speak it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any


class Exchange(BaseHTTPRequestHandler):
    """One connection. What it has heard and answers."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post(self.rfile.read(int(self.headers["Content-Length"])))

    def get(self) -> None:
        """Answer a GET."""
        self.answer(405)

    def post(self, body: bytes) -> None:
        """Answer a POST."""
        raise NotImplementedError

    def answer(self, status: int, text: str = "") -> None:
        """Answer with a plain text."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def answer_json(self, status: int, content: Any) -> None:
        """Answer with JSON."""
        self.answer(status, json.dumps(content))

    def hang_up(self) -> None:
        """Answer nothing at all."""
        self.close_connection = True

    def log_message(self, *_args: object, **_kwargs: object) -> None:
        """Stay silent: the director tells what happens."""
