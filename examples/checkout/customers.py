"""Customers: threads that place orders over real HTTP, and are as persistent as a good client is."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import httpx2

LOSES_AN_ANSWER, CLICKS_TWICE = 3, 7  # of ten customers
IN_PROGRESS = "urn:headrace:idempotency-key:in-progress"  # the type of a 409 that says: an earlier click is at work


@dataclass(frozen=True)
class Purchase:
    """One click of "buy". The key is made once per purchase; every click and every retry sends the same one."""

    sku: str
    quantity: int
    customer_email: str
    key: str

    @classmethod
    def of(cls, sku: str, quantity: int = 1) -> Purchase:
        """A new purchase by a new customer."""
        key = uuid.uuid4().hex
        return cls(sku, quantity, f"customer-{key[:8]}@mail.example", key)

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with it."""
        return {"Idempotency-Key": f'"{self.key}"', "Content-Type": "application/json"}

    @property
    def body(self) -> bytes:
        """What is sent, the same to the byte each time: another body under the same key is another request."""
        order = {"customer_email": self.customer_email, "sku": self.sku, "quantity": self.quantity}
        return json.dumps(order).encode()


@dataclass(frozen=True)
class Receipt:
    """What the shop answered. The customer relies on it: an order with a receipt must never be lost."""

    purchase: Purchase
    status: int
    order_id: int | None  # None: refused
    at: float  # time.monotonic, when the button was pressed
    replayed: bool = False  # it is the answer to an earlier click


class Customers:
    """All who buy at the shop. `receipts` grows as the answers come."""

    def __init__(self, shops: Sequence[str]) -> None:
        self.shops = shops  # the shop's web servers, to which a load balancer sends them in turn
        self.receipts: list[Receipt] = []
        self.gave_up: list[Purchase] = []
        self.lost_answers = 0
        self._client = httpx2.Client(timeout=5, trust_env=False)
        self._turns = itertools.cycle(shops)
        self._threads: list[threading.Thread] = []
        self._leave = threading.Event()

    @property
    def orders(self) -> int:
        """How many different orders the shop has confirmed to them."""
        return len({receipt.order_id for receipt in tuple(self.receipts) if receipt.order_id is not None})

    def buy(self, purchase: Purchase, *, patience: float = 20, at: str | None = None) -> Receipt | None:
        """Press the button; without an answer press it again, for `patience` seconds. None: gave up.

        `at` is the one web server to go to; otherwise each press goes to the next.
        """
        pressed = time.monotonic()
        while not self._leave.is_set():
            pause = 0.2
            try:
                url = f"{at or next(self._turns)}/orders"
                answer = self._client.post(url, content=purchase.body, headers=purchase.headers)
            except httpx2.TransportError:  # the server is away: nobody knows whether the order was placed
                answer = None
            if answer is not None and answer.status_code < 500:
                if answer.status_code != 409 or answer.json()["type"] != IN_PROGRESS:
                    return self._receive(purchase, answer, pressed)
                pause = float(answer.headers["Retry-After"])
            if time.monotonic() - pressed >= patience or self._leave.wait(pause):
                break
        self.gave_up.append(purchase)
        return None

    def lose_the_answer(self, purchase: Purchase) -> None:
        """Press the button, and lose the network before the answer."""
        host, _, port = next(self._turns).removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        try:
            connection.request("POST", "/orders", purchase.body, purchase.headers)
        except OSError:
            return  # lost even earlier
        finally:
            connection.close()
        self.lost_answers += 1

    def _receive(self, purchase: Purchase, answer: httpx2.Response, pressed: float) -> Receipt:
        order_id = answer.json()["order_id"] if answer.is_success else None
        replayed = "Idempotent-Replayed" in answer.headers
        receipt = Receipt(purchase, answer.status_code, order_id, pressed, replayed)
        self.receipts.append(receipt)
        return receipt

    def buy_at_once(self, *purchases: Purchase) -> list[Receipt | None]:
        """Press all buttons at the same moment."""
        together = threading.Barrier(len(purchases))
        answers: list[Receipt | None] = [None] * len(purchases)

        def press(place: int) -> None:
            together.wait()
            answers[place] = self.buy(purchases[place])

        threads = [threading.Thread(target=press, args=(place,), daemon=True) for place in range(len(purchases))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def arrive(self, purchases: list[Purchase], per_second: float, threads: int = 4) -> None:
        """Buy all of it in the background, evenly spread over time. Some click twice, some lose their first answer."""
        start, turns, lock = time.monotonic(), enumerate(purchases), threading.Lock()

        def keep_buying() -> None:
            while True:
                with lock:
                    place, purchase = next(turns, (0, None))
                if purchase is None or self._leave.wait(max(0.0, start + place / per_second - time.monotonic())):
                    return
                if place % 10 == LOSES_AN_ANSWER:
                    self.lose_the_answer(purchase)
                self.buy(purchase)
                if place % 10 == CLICKS_TWICE:
                    self.buy(purchase)

        for _ in range(threads):
            thread = threading.Thread(target=keep_buying, daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def busy(self) -> bool:
        """Are some still buying?"""
        return any(thread.is_alive() for thread in self._threads)

    def status_of(self, order_id: int) -> str:
        """Look the order up in the shop, as its customer would."""
        trouble = ""
        for shop in self.shops:
            try:
                answer = self._client.get(f"{shop}/orders/{order_id}")
            except httpx2.TransportError as error:
                trouble = f"no answer ({error})"
                continue
            return str(answer.json().get("status", answer.status_code))
        return trouble

    def leave(self) -> None:
        """Stop buying. May be called twice."""
        self._leave.set()
        for thread in self._threads:
            thread.join(timeout=6)
        self._client.close()


def assortment(count: int, skus: list[str]) -> list[Purchase]:
    """Purchases of one to three units, over all items in turn."""
    return [Purchase.of(sku, 1 + place % 3) for place, sku in zip(range(count), itertools.cycle(skus), strict=False)]
