"""A payment gateway: charges once for each idempotency key, and is not good at saying so."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import httpx2

from headrace.webhooks import new_secret, sign

from .exchange import Exchange
from .listener import Listener

PROCESSING, PAID, CLOSED = "PROCESSING", "PAID", "CLOSED"
QUERIES = 2  # that are answered PROCESSING before it is known what becomes of a charge


@dataclass
class Charge:
    """Money taken from a customer, or about to be."""

    trade_no: str
    order_id: int
    cents: int
    fate: str  # what becomes of it in the end; PROCESSING: nobody ever learns
    status: str = PROCESSING
    queries: int = 0


class Gateway(Listener):
    """Takes every charge, unless told to fail. Every eighth is CLOSED in the end; of every third it tells the shop."""

    def __init__(self) -> None:
        super().__init__(partial(_Exchange, self))
        self.secret = new_secret()
        self.shops: Sequence[str] = ()  # where it tells how a charge has ended
        self.charges: list[Charge] = []
        self.asked_again = 0  # requests whose key had a charge already
        self.failing = False  # answer 503, and charge nothing
        self.silent = False  # charge, and answer nothing
        self.forgetful = False  # never learn what becomes of the charges of this time
        self.delay = 0.0  # seconds before an answer
        self._by_key: dict[str, Charge] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def charge(self, key: str, order_id: int, cents: int) -> Charge:
        """The charge of this key: a new one, or the one that is there."""
        with self._lock:
            if known := self._by_key.get(key):
                self.asked_again += 1
                return known
            number = next(self._numbers)
            fate = PROCESSING if self.forgetful else PAID if number % 8 else CLOSED
            charge = self._by_key[key] = Charge(f"trade-{number}", order_id, cents, fate)
            self.charges.append(charge)
        if self.shops and number % 3 == 0 and fate != PROCESSING:
            threading.Thread(target=self._tell, args=(charge,), daemon=True).start()
        return charge

    def query(self, trade_no: str) -> Charge:
        """How it is getting on."""
        with self._lock:
            charge = next(one for one in self.charges if one.trade_no == trade_no)
            charge.queries += 1
            if charge.queries > QUERIES:
                charge.status = charge.fate
            return charge

    def statuses(self) -> Counter[str]:
        """How many charges there are of each status."""
        with self._lock:
            return Counter(charge.status for charge in self.charges)

    @property
    def url(self) -> str:
        """Where the shop finds it."""
        return f"http://127.0.0.1:{self.port}"

    def _tell(self, charge: Charge) -> None:
        """Call the shop, once: what is lost, is lost."""
        with self._lock:
            charge.status = charge.fate
        body = json.dumps({"order_id": charge.order_id, "status": charge.status}).encode()
        moment = int(time.time())
        headers = {"webhook-id": charge.trade_no, "webhook-timestamp": str(moment)}
        headers["webhook-signature"] = sign(self.secret, charge.trade_no, moment, body)
        shop = self.shops[charge.order_id % len(self.shops)]
        try:
            httpx2.post(f"{shop}/payments/notifications", content=body, headers=headers, timeout=5, trust_env=False)
        except httpx2.TransportError:
            return  # the shop is away; it will ask


class _Exchange(Exchange):
    def __init__(self, gateway: Gateway, *handed_over: object) -> None:
        self.gateway = gateway
        super().__init__(*handed_over)  # type: ignore[arg-type]

    def post(self, body: bytes) -> None:
        order = json.loads(body)
        if self.gateway.failing:
            self.answer(503)
            return
        silent = self.gateway.silent  # whoever sees the charge may change it
        charge = self.gateway.charge(self.headers["Idempotency-Key"], order["order_id"], order["cents"])
        time.sleep(self.gateway.delay)
        if silent:
            time.sleep(2)  # longer than the shop waits
            self.hang_up()
        else:
            self.answer_json(201, {"trade_no": charge.trade_no})

    def get(self) -> None:
        if self.gateway.failing:
            self.answer(503)
            return
        charge = self.gateway.query(self.path.rpartition("/")[2])
        self.answer_json(200, {"trade_no": charge.trade_no, "status": charge.status})
