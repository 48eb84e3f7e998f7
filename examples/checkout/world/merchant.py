"""The merchants' server: takes signed webhooks over HTTP, sooner or later, and remembers each."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from functools import partial
from typing import NamedTuple

from headrace.webhooks import SignatureInvalid, new_secret, verify

from .exchange import Exchange
from .listener import Listener


class Webhook(NamedTuple):
    """One webhook that was taken."""

    id: str  # the sender's, the same when it sends again
    order_id: int
    payment: str
    at: float  # time.monotonic


class MerchantServer(Listener):
    """Has its habits: some webhooks it takes at once, some at the second or third try, some without a word."""

    def __init__(self) -> None:
        super().__init__(partial(_Exchange, self))
        self.secret = new_secret()
        self.webhooks: list[Webhook] = []
        self.refused: list[str] = []  # ids that were answered 410
        self.forged = 0  # webhooks without a good signature
        self.failing = False  # answer 503 and remember nothing
        self.leaving: set[str] = set()  # merchants who want no more webhooks
        self._tries: Counter[str] = Counter()
        self._habits: dict[str, int] = {}
        self._lock = threading.Lock()

    def try_of(self, webhook_id: str) -> tuple[int, int]:
        """How often this webhook has come by now, and the habit that goes with it: each id has the next of seven."""
        with self._lock:
            self._tries[webhook_id] += 1
            return self._tries[webhook_id], self._habits.setdefault(webhook_id, len(self._habits) % 7)

    def take(self, webhook_id: str, body: bytes) -> None:
        """Remember a webhook."""
        data = json.loads(body)["data"]
        with self._lock:
            self.webhooks.append(Webhook(webhook_id, int(data["order_id"]), data["payment"], time.monotonic()))

    @property
    def url(self) -> str:
        """Where the webhooks go: a merchant's own are below it."""
        return f"http://127.0.0.1:{self.port}/webhooks"


class _Exchange(Exchange):
    def __init__(self, merchant: MerchantServer, *handed_over: object) -> None:
        self.merchant = merchant
        super().__init__(*handed_over)  # type: ignore[arg-type]

    def post(self, body: bytes) -> None:
        merchant = self.merchant
        try:
            webhook_id = verify(merchant.secret, dict(self.headers), body)
        except SignatureInvalid as error:
            merchant.forged += 1
            self.answer(401, str(error))
            return
        if self.path.rpartition("/")[2] in merchant.leaving:
            merchant.refused.append(webhook_id)
            self.answer(410, "no more, please")
            return
        count_and_habit = merchant.try_of(webhook_id)
        if merchant.failing:
            self.answer(503)
        else:
            self.take_as_usual(count_and_habit, webhook_id, body)

    def take_as_usual(self, count_and_habit: tuple[int, int], webhook_id: str, body: bytes) -> None:
        match count_and_habit:
            case (1, 1) | (2, 1):
                self.answer(200, "not now")  # which is no success, whatever the status says
            case (1, 3):
                self.answer(503)
            case (1, 5):
                time.sleep(1.5)  # longer than the shop waits
                self.hang_up()
            case (1, 6):
                self.merchant.take(webhook_id, body)
                self.hang_up()  # it is taken, and nobody is told
            case _:
                self.merchant.take(webhook_id, body)
                self.answer(200, "success")
