"""The audit must be able to say OFF: each claim is broken once, and only that claim is off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.checkout.audit import DeliveryRow, Evidence, FailedJob, OrderRow, audit
from examples.checkout.customers import Purchase, Receipt
from examples.checkout.report import Report, figures
from examples.checkout.stage import Event
from examples.checkout.world.gateway import Charge
from examples.checkout.world.mail import Mail
from examples.checkout.world.merchant import Webhook

BUYERS = [Purchase("teapot", 2, "a@mail.example", "click-1"), Purchase("kettle", 1, "b@mail.example", "click-2")]


def mailed(order_id: int, at: float = 2.0) -> Mail:
    return Mail(f"confirmation_email-{order_id}@shop.example", "a@mail.example", at)


def told(order_id: int) -> Webhook:
    return Webhook(f"order-{order_id}", order_id, "PAID", 2.0)


def charged(order_id: int, cents: int, trade: str = "trade") -> Charge:
    return Charge(f"{trade}-{order_id}", order_id, cents, "PAID", "PAID")


def delivered(order_id: int, subscriber: str, job: str = "first", enqueued: int = 1) -> DeliveryRow:
    return DeliveryRow(subscriber, f"event-{order_id}", f"{job}-{order_id}", enqueued, order_id, f"click-{order_id}")


BOTH = ("book_invoice", "count_sale")
DELIVERIES = [delivered(order_id, subscriber) for order_id in (1, 2) for subscriber in BOTH]

FIRST = OrderRow(1, "click-1", "teapot", 2, 3980, "trade-1", "PAID")
SECOND = OrderRow(2, "click-2", "kettle", 1, 1990, "trade-2", "PAID")

GOOD = Evidence(
    receipts=[Receipt(BUYERS[0], 201, 1, 1.0), Receipt(BUYERS[1], 201, 2, 1.5), Receipt(BUYERS[1], 201, 2, 1.5, True)],
    orders=[FIRST, SECOND],
    stock_before={"teapot": 5, "kettle": 5},
    stock_after={"teapot": 3, "kettle": 4},
    sold={"teapot": 2, "kettle": 1},
    invoices=[(1, 3980), (2, 1990)],
    charges=[charged(1, 3980), charged(2, 1990)],
    asked_again=1,
    poll_ends=[("trade-1", "on_final"), ("trade-2", "on_final")],
    deliveries=DELIVERIES,
    mails=[mailed(1), mailed(2), mailed(2, at=3.0)],
    webhooks=[told(1), told(2)],
    refused=[],
    forged=0,
    left=set(),
    statuses={1: "confirmed", 2: "confirmed"},
    unfinished={"ready": 0, "running": 0, "scheduled": 0},
    waiting_events=0,
    failed=[FailedJob("job-9", "import_price_list", "crashed", 3)],
    poison="job-9",
    mishaps=[],
)
BROKEN = {
    "every scene took place": {"mishaps": ["the shop opens: not within 20 s"]},
    "every order with a receipt is there": {
        "receipts": [*GOOD.receipts, Receipt(Purchase("teapot", 1, "c@mail.example", "click-3"), 201, 3, 1.0)]
    },
    "every order has one mail": {"mails": [mailed(1)]},
    "no Idempotency-Key made two orders": {"receipts": [*GOOD.receipts, Receipt(BUYERS[1], 201, 1, 1.5)]},
    "every order was charged once": {"charges": [*GOOD.charges, charged(2, 1990, trade="again")]},
    "every order ends PAID, CLOSED or TIMEOUT": {
        "charges": [charged(1, 3980), Charge("trade-2", 2, 1990, "CLOSED", "CLOSED")]
    },
    "every payment poll ended once": {"poll_ends": [*GOOD.poll_ends, ("trade-2", "on_timeout")]},
    "every order has one webhook": {"webhooks": [told(1)]},
    "webhooks are signed, and true": {"forged": 1},
    "a merchant who answers 410 is asked no more": {"refused": ["order-1", "order-1", "order-2"]},
    "stock = stock before - units sold": {"stock_after": {"teapot": 3, "kettle": 5}},
    "every order page says confirmed": {"statuses": {1: "confirmed", 2: "pending"}},
    "no job is ready, running or scheduled": {"unfinished": {"ready": 0, "running": 1, "scheduled": 0}},
    "every OrderCreated reached each subscriber": {"deliveries": DELIVERIES[:-1]},
    "no OrderCreated made two jobs of a subscriber": {
        "deliveries": [*DELIVERIES, delivered(1, "count_sale", job="second")]
    },
    "the ledger has one invoice per order": {"invoices": [*GOOD.invoices, (2, 1990)]},
    "the statistics count every unit once": {"sold": {"teapot": 2, "kettle": 2}},
    "no event waits in the outbox": {"waiting_events": 1},
    "the poison job failed, and it alone": {"failed": [*GOOD.failed, FailedJob("mail:1", "mail", "SMTPException", 0)]},
}


def test_good_evidence_passes_and_repeats_are_counted() -> None:
    findings = audit(GOOD)
    assert [finding.claim for finding in findings if not finding.ok] == []
    assert "2 distinct, 1 came twice with the same id" in [finding.found for finding in findings]
    assert figures(GOOD, deaths=4)["mails that came twice"] == 1


@pytest.mark.parametrize("claim", BROKEN)
def test_a_broken_claim_is_off_and_no_other(claim: str) -> None:
    findings = audit(replace(GOOD, **BROKEN[claim]))
    assert [finding.claim for finding in findings if not finding.ok] == [claim]


@pytest.mark.parametrize(
    ("deliveries", "found"),
    [
        (DELIVERIES[:-1], "count_sale missed order 2"),
        (
            [*DELIVERIES, delivered(3, "count_sale")],
            "count_sale heard of order 3 (click-3), which is not there",
        ),
        ([*DELIVERIES, delivered(1, "count_sale", enqueued=2)], "2 jobs of count_sale for order 1"),
    ],
)
def test_the_audit_names_the_event_that_is_off(deliveries: list[DeliveryRow], found: str) -> None:
    findings = audit(replace(GOOD, deliveries=deliveries))
    assert [finding.found for finding in findings if not finding.ok] == [found]


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        ({"orders": [FIRST, replace(SECOND, key="click-1")]}, "2 orders under the key click-1"),
        ({"receipts": [Receipt(BUYERS[0], 422, None, 1.0)]}, "422 for the key click-1"),
        ({"charges": [charged(1, 3980)]}, "order 2: 1990 not charged"),
        (
            {"charges": [charged(1, 3980), charged(2, 1991)]},
            "order 2: 1990 not charged, order 2: 1991 charged too much",
        ),
        ({"orders": [FIRST, replace(SECOND, payment="PENDING")]}, "order 2: PENDING, at the gateway PAID"),
        ({"poll_ends": GOOD.poll_ends[:1]}, "trade-2: no hook"),
        ({"poll_ends": [*GOOD.poll_ends, ("trade-2", "on_timeout")]}, "trade-2: on_final and on_timeout"),
        ({"webhooks": [told(1), told(2)._replace(payment="CLOSED")]}, "order 2: CLOSED"),
        ({"webhooks": [told(1), told(2), told(3)]}, "unexpected order-3"),
    ],
)
def test_the_audit_names_what_is_off(evidence: dict[str, Any], found: str) -> None:
    assert found in [finding.found for finding in audit(replace(GOOD, **evidence)) if not finding.ok]


def test_a_merchant_who_left_need_not_be_told() -> None:
    evidence = replace(GOOD, webhooks=[told(1)], refused=["order-2"], left={"kettle"})
    assert [finding.claim for finding in audit(evidence) if not finding.ok] == []


def test_the_report_says_what_is_off(tmp_path: Path) -> None:
    evidence = replace(GOOD, mails=[mailed(1)])
    report = Report(
        ok=False,
        seconds=12.0,
        database="sqlite",
        findings=audit(evidence),
        figures=figures(evidence, deaths=1),
        timeline=[Event(1.5, "the mail server goes down")],
    )
    page = report.write(tmp_path).read_text(encoding="utf-8")
    assert "SOMETHING IS OFF" in page
    assert "| OFF | every order has one mail | missing confirmation_email-2 |" in page
    assert "| 1.5 | the mail server goes down |" in page
    data = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert data["ok"] is False
    assert data["figures"]["orders"] == 2
