"""The audit must be able to say OFF: each claim is broken once, and only that claim is off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.checkout.audit import audit
from examples.checkout.customers import Purchase, Receipt
from examples.checkout.evidence import (
    DeliveryRow,
    Evidence,
    FailedJob,
    MailOutage,
    Morning,
    OrderRow,
    Repair,
    Step,
)
from examples.checkout.report import Report, figures
from examples.checkout.stage import Event
from examples.checkout.world.gateway import Charge
from examples.checkout.world.mail import Mail
from examples.checkout.world.merchant import Webhook
from examples.checkout.world.pager import Page

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

# Opened at 100.3, probes at 101.5, opened again, probes at 103.3, closed at 103.5 and at a pace from then on.
FAILING, PROBES = [100.1, 100.2, 100.3, 100.4], [101.5, 101.6, 103.3, 103.4]
PACED = [103.5, 103.5, *(103.6 + place / 20 for place in range(40))]
OUTAGE = MailOutage(
    began=100.0,
    ended=103.0,
    calls=[99.0, *FAILING, *PROBES, *PACED, 120.0],
    steps=[
        Step(100.3, "open"),
        Step(101.5, "half_open"),
        Step(101.7, "open"),
        Step(103.3, "half_open"),
        Step(103.5, "closed"),
    ],
    probes=2,
    refill=20,
    burst=2,
    workers=2,
    parked=42,
    attempts=6,
    drained=105.7,
    meanwhile={"orders": 30, "charges": 28, "invoices": 30, "webhooks": 9},
)
POISON = FailedJob("poison", "import_price_list", "crashed", 3)
SPOILT = ["list-1", "list-2", "list-3", "list-4"]
MORNING = Morning(
    found=[*(FailedJob(id, "import_price_list", "UnknownCurrency", 0) for id in SPOILT), POISON],
    lists={"sound": 1, "list-1": 101, "list-2": 102, "list-3": 103, "list-4": 104, "poison": 14},
    spoilt=SPOILT,
    canaries=2,
    forgotten="list-4",
    stopped=["list-4", "list-2", "list-1"],
    repairs=[Repair(id, "succeeded", 1, [("ann", "a typing error")]) for id in ("poison", *SPOILT[:3])]
    + [Repair("list-4", "succeeded", 2, [("ann", "a typing error")])],
    operator="ann",
)
RANG = [
    Page("circuit-opened", "smtp", "firing", "it opened"),
    Page("circuit-opened", "smtp", "resolved", "it closed"),
    Page("failed-growth", "", "firing", "12 jobs failed"),
]

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
    unfinished={"ready": 0, "running": 0, "scheduled": 0, "parked": 0},
    waiting_events=0,
    failed=[],
    poison="poison",
    price_lists=[(list_id, job_id, "EUR") for job_id, list_id in MORNING.lists.items()],
    pages=RANG,
    mishaps=[],
    outage=OUTAGE,
    morning=MORNING,
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
    "no job is ready, running, scheduled or parked": {"unfinished": {"ready": 0, "running": 0, "parked": 1}},
    "every OrderCreated reached each subscriber": {"deliveries": DELIVERIES[:-1]},
    "no OrderCreated made two jobs of a subscriber": {
        "deliveries": [*DELIVERIES, delivered(1, "count_sale", job="second")]
    },
    "the ledger has one invoice per order": {"invoices": [*GOOD.invoices, (2, 1990)]},
    "the statistics count every unit once": {"sold": {"teapot": 2, "kettle": 2}},
    "no event waits in the outbox": {"waiting_events": 1},
    "in the end no job is failed": {"failed": [FailedJob("mail:1", "mail", "SMTPException", 0)]},
    "a mail server that fails opens its circuit": {"outage": replace(OUTAGE, began=102.0, attempts=0)},
    "while it is open nobody calls, but for probes": {
        "outage": replace(OUTAGE, calls=[*OUTAGE.calls, *(101.0 + place / 20 for place in range(8))])
    },
    "mails wait meanwhile, and lose no attempt": {"outage": replace(OUTAGE, attempts=40)},
    "the other queues flow meanwhile": {
        "outage": replace(OUTAGE, meanwhile={"orders": 30, "charges": 3, "invoices": 30, "webhooks": 9})
    },
    "mails that waited come at a pace": {
        "outage": replace(OUTAGE, calls=[*FAILING, *PROBES, *(103.6 for _ in PACED)])  # all at once
    },
    "the poison job was quarantined after three deaths, alone": {
        "morning": replace(MORNING, found=[*MORNING.found[:-1], replace(POISON, crashes=2)])
    },
    "a canary that fails stops a replay": {"morning": replace(MORNING, stopped=["list-4"])},
    "every price list was imported once, by the job it came with": {
        "price_lists": [*GOOD.price_lists, (101, "another", "EUR")]
    },
    "the store knows who corrected what, and why": {
        "morning": replace(MORNING, repairs=[*MORNING.repairs[:-1], Repair("list-4", "succeeded", 2, [("ann", "")])])
    },
    "the pager rings once for each trouble": {"pages": [*RANG, RANG[0]]},
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
        # a circuit that each worker has for itself, that gives out too many probes, or none
        ({"outage": replace(OUTAGE, calls=[*OUTAGE.calls, *(101.55 for _ in range(7))])}, "7 calls besides"),
        ({"outage": replace(OUTAGE, steps=[])}, "it did not open, it did not close again"),
        ({"outage": None}, "there was no outage"),
        ({"outage": replace(OUTAGE, parked=0, attempts=0)}, "none waited"),
        ({"outage": replace(OUTAGE, drained=0.0)}, "some waited to the end"),
        # nobody parks a mail any more, and all come
        ({"outage": replace(OUTAGE, calls=[*FAILING, *PROBES, *([104.0] * 30)], drained=103.6)}, "16 came early"),
        # a pace that is kept at first
        (
            {"outage": replace(OUTAGE, calls=[*FAILING, *PROBES, *PACED[:2], *(105.6 for _ in range(38))])},
            "38 in one second",
        ),
        ({"morning": None}, "there was no morning"),
        ({"morning": replace(MORNING, found=MORNING.found[:-1])}, "it was not"),
        (
            {"morning": replace(MORNING, found=[*MORNING.found, FailedJob("mail:1", "mail", "crashed", 3)])},
            "mail:1 failed too (crashed)",
        ),
        ({"morning": replace(MORNING, stopped=[])}, "the one that was forgotten did not fail, 0 were left failed"),
        ({"price_lists": GOOD.price_lists[1:]}, "list 1 was not"),
        ({"price_lists": [*GOOD.price_lists[1:], (1, "sound", "EURO")]}, "list 1 in EURO"),
        ({"morning": replace(MORNING, repairs=MORNING.repairs[1:])}, "nothing is known of poison"),
        (
            {"morning": replace(MORNING, repairs=[*MORNING.repairs[1:], Repair("poison", "succeeded", 2, [])])},
            "poison: corrected by [], poison: replayed 2 times",
        ),
        ({"pages": RANG[:2]}, "silence about failed-growth"),
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
