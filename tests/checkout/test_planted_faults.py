"""The audit of a real performance, in which something has gone wrong that headrace would never do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select, text

from examples.checkout.audit import SUBSCRIBERS
from examples.checkout.cast import fresh_folder
from examples.checkout.customers import assortment
from examples.checkout.databases import place
from examples.checkout.director import SKUS, Director
from examples.checkout.shop.models import Delivery, Item, Order

OUTAGE = (
    "a mail server that fails opens its circuit",
    "while it is open nobody calls, but for probes",
    "mails wait meanwhile, and lose no attempt",
    "the other queues flow meanwhile",
    "mails that waited come at a pace",
)
MORNING = (
    "the poison job was quarantined after three deaths, alone",
    "a canary that fails stops a replay",
    "every price list was imported once, by the job it came with",
    "the store knows who corrected what, and why",
    "the pager rings once for each trouble",
)


class Saboteur(Director):
    """A quiet evening, but for what is planted."""

    def perform(self) -> None:
        self.wait_for("the shop opens", self.cast.shop_is_open, 60)
        self.cast.customers.arrive(assortment(4, SKUS), 20)
        self.wait_for("all customers have ordered", lambda: not self.cast.customers.busy, 30)
        self.all_is_quiet()
        self.plant_an_order_without_jobs()
        self.plant_second_jobs_for_an_event()
        self.plant_a_lost_answer()
        self.plant_a_second_charge()
        self.plant_a_poll_with_both_hooks()
        self.all_is_quiet()

    def plant_a_lost_answer(self) -> None:
        """As a shop leaves it behind that forgets what it has answered: the second click is a second order."""
        purchase = next(one.purchase for one in self.cast.customers.receipts if one.purchase.sku == SKUS[0])
        with self.cast.database.writing() as session:
            session.execute(text("delete from checkout_once where scope = 'http'"))
        self.cast.customers.buy(purchase)
        self.key = purchase.key

    def plant_a_second_charge(self) -> None:
        """As a shop makes it that has a new key for each try."""
        self.charged = self.cast.gateway.charges[0]
        order = {"order_id": self.charged.order_id, "cents": self.charged.cents}
        url = f"{self.cast.gateway.url}/charges"
        httpx2.post(url, json=order, headers={"Idempotency-Key": "another"}, trust_env=False).raise_for_status()

    def plant_a_poll_with_both_hooks(self) -> None:
        """As a timeout leaves it behind that does not look whether the answer has come."""

        @self.cast.store.task(name="examples.checkout.shop.payments.payment_never_ended", queue="payments")
        def timeout(trade_no: str, order_id: int) -> None:
            """As another program would call it."""

        timeout.enqueue(trade_no=self.charged.trade_no, order_id=self.charged.order_id)

    def plant_an_order_without_jobs(self) -> None:
        """As a shop leaves it behind that commits first and enqueues then."""
        with self.cast.database.writing() as session:
            item = session.get_one(Item, SKUS[0], with_for_update=True)
            item.stock -= 1
            order = Order(idempotency_key="lost", customer_email="a@mail.example", sku=item.sku, quantity=1)
            order.total_cents = item.price_cents
            session.add(order)
            session.flush()
            self.lost = order.id

    def plant_second_jobs_for_an_event(self) -> None:
        """As a relay makes them that gives each job an id of its own."""
        with self.cast.database.reading() as session:
            known = session.scalars(select(Delivery)).first()
            assert known is not None
            order = session.get_one(Order, known.order_id)
            self.doubled, self.doubled_cents = order.id, order.total_cents
            columns = ("idempotency_key", "sku", "quantity", "total_cents")
            payload = {"order_id": order.id} | {name: getattr(order, name) for name in columns}
        event = {"id": known.event_id, "type": "OrderCreated", "aggregate_type": "Order", "created_us": 1}
        for subscriber in SUBSCRIBERS:

            @self.cast.store.task(name=f"examples.checkout.shop.jobs.{subscriber}", queue="books")
            def another(order: dict[str, Any], event: dict[str, Any]) -> None:
                """As another program would call it."""

            another.enqueue(order=payload, event=event | {"aggregate_id": str(order.id)})


@pytest.mark.timeout(180)
@pytest.mark.parametrize("database", ["sqlite", "postgres", "mysql"])
def test_what_went_wrong_is_named(tmp_path: Path, need: Callable[[str], None], database: str) -> None:
    need(database)
    with place(database, fresh_folder(tmp_path)) as found:
        director = Saboteur(found, 4, 20, tmp_path)
        report = director.run()
    off = {finding.claim: finding.found for finding in report.findings if not finding.ok}
    lost = director.lost
    missed = ", ".join(f"{subscriber} missed order {lost}" for subscriber in SUBSCRIBERS)
    doubled, charged = director.doubled, director.charged
    money = f"order {lost}: 1990 not booked, order {doubled}: {director.doubled_cents} too much"
    assert off == {
        "no Idempotency-Key made two orders": (
            f"2 orders under the key {director.key}, 2 orders answered under the key {director.key}"
        ),
        "every order was charged once": (
            f"order {lost}: 1990 not charged, order {charged.order_id}: {charged.cents} charged too much"
        ),
        "every order ends PAID, CLOSED or TIMEOUT": f"order {lost}: PENDING, at the gateway unknown",
        "every payment poll ended once": f"order {lost}: no hook, {charged.trade_no}: on_final and on_timeout",
        "every order has one mail": f"missing confirmation_email-{lost}",
        "every order has one webhook": f"missing order-{lost}",
        "every OrderCreated reached each subscriber": missed,
        "no OrderCreated made two jobs of a subscriber": ", ".join(
            f"2 jobs of {subscriber} for order {doubled}" for subscriber in SUBSCRIBERS
        ),
        "the ledger has one invoice per order": money,
        "the statistics count every unit once": f"{SKUS[0]}: 3 sold, 2 counted",
        "every order page says confirmed": f"order {lost}: pending",
        # which this evening had not
        **dict.fromkeys(OUTAGE, "there was no outage"),
        **dict.fromkeys(MORNING, "there was no morning"),
    }
    assert not report.ok
    assert director.deaths == 0
