"""A merchant's server: takes webhooks over HTTP, and remembers each."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple

from .listener import Listener


class Webhook(NamedTuple):
    """One webhook that was accepted."""

    id: str  # the sender's, the same when it sends again
    order_id: int
    at: float  # time.monotonic


class MerchantServer(Listener):
    """Accepts everything, unless told to fail."""

    def __init__(self) -> None:
        super().__init__(partial(_Exchange, self))
        self.webhooks: list[Webhook] = []
        self.failing = False  # answer 503 and remember nothing
        self._lock = threading.Lock()

    def take(self, webhook_id: str, body: bytes) -> None:
        """Remember a webhook."""
        with self._lock:
            self.webhooks.append(Webhook(webhook_id, int(json.loads(body)["order_id"]), time.monotonic()))

    @property
    def url(self) -> str:
        """Where the webhooks go."""
        return f"http://127.0.0.1:{self.port}/webhooks"


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, merchant: MerchantServer, *handed_over: object) -> None:
        self.merchant = merchant
        super().__init__(*handed_over)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.merchant.failing:
            self.answer(503)
            return
        self.merchant.take(self.headers["webhook-id"], body)
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:  # which has no body by definition
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object, **_kwargs: object) -> None:
        """Stay silent: the director tells what happens."""
