"""The final audit: count what reached the world against what was ordered. Pure: evidence in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .customers import Receipt
from .shop.models import CONFIRMATION, WEBHOOK
from .world.mail import Mail
from .world.merchant import Webhook


@dataclass(frozen=True)
class OrderRow:
    """An order as it stands in the shop's database."""

    id: int
    client_reference: str
    sku: str
    quantity: int
    total_cents: int


@dataclass(frozen=True)
class DeliveryRow:
    """A job that brought an event to one of its subscribers, as the subscriber wrote it down."""

    subscriber: str
    event_id: str
    job_id: str
    enqueued_us: int
    order_id: int
    client_reference: str


@dataclass(frozen=True)
class FailedJob:
    """A job that will not run again by itself."""

    id: str
    task: str
    reason: str
    crashes: int  # how many workers died under it


@dataclass(frozen=True)
class Evidence:
    """All that is known at the end, each part from whoever saw it."""

    receipts: list[Receipt]  # the customers
    orders: list[OrderRow]  # the shop's database
    stock_before: dict[str, int]
    stock_after: dict[str, int]
    sold: dict[str, int]  # units, as the statistics counted them from events
    payments: list[tuple[int, int]]  # the ledger: order and cents
    deliveries: list[DeliveryRow]  # the subscribers
    mails: list[Mail]  # the mail server
    webhooks: list[Webhook]  # the merchant
    statuses: dict[int, str]  # the shop's pages, one per order
    unfinished: dict[str, int]  # the job store: jobs that are ready, running, scheduled
    waiting_events: int  # the outbox
    failed: list[FailedJob]
    poison: str  # the id of the job that had to fail
    mishaps: list[str]  # scenes that did not go as written


SUBSCRIBERS = ("book_payment", "count_sale")


@dataclass(frozen=True)
class Finding:
    """One line of the audit."""

    claim: str
    ok: bool
    found: str


def audit(evidence: Evidence) -> list[Finding]:
    """Check every claim."""
    return [check(evidence) for check in CHECKS]


def scenes(evidence: Evidence) -> Finding:
    """An audit of a drill that did not take place would prove nothing."""
    return Finding("every scene took place", not evidence.mishaps, "; ".join(evidence.mishaps) or "as written")


def no_order_lost(evidence: Evidence) -> Finding:
    """What a customer has a receipt for is in the database."""
    stored = {order.id for order in evidence.orders}
    lost = {receipt.order_id for receipt in evidence.receipts if receipt.order_id is not None} - stored
    return _finding("every order with a receipt is there", lost, f"{len(stored)} orders")


def one_order_per_purchase(evidence: Evidence) -> Finding:
    """However often the button was pressed."""
    purchases = Counter(order.client_reference for order in evidence.orders)
    pressed = Counter(receipt.purchase.client_reference for receipt in evidence.receipts)
    repeated = sum(presses > 1 for presses in pressed.values())
    return _finding("no purchase made two orders", _repeated(purchases), f"{repeated} clicked more than once")


def one_mail_per_order(evidence: Evidence) -> Finding:
    """By distinct Message-ID: that is how a mail program tells a repeated mail from a second one."""
    return _told(
        "every order has one mail",
        evidence,
        (mail.message_id.partition("@")[0] for mail in evidence.mails),
        CONFIRMATION,
    )


def one_webhook_per_order(evidence: Evidence) -> Finding:
    """By distinct webhook id."""
    return _told("every order has one webhook", evidence, (webhook.id for webhook in evidence.webhooks), WEBHOOK)


def every_event_arrived(evidence: Evidence) -> Finding:
    """At each subscriber, for each order; and for nothing else: an order that was rolled back has no event."""
    created = {(order.id, order.client_reference) for order in evidence.orders}
    wrong = []
    for subscriber in SUBSCRIBERS:
        told = {(row.order_id, row.client_reference) for row in evidence.deliveries if row.subscriber == subscriber}
        wrong += [f"{subscriber} missed order {id}" for id, _ in sorted(created - told)]
        phantoms = sorted(told - created)
        wrong += [f"{subscriber} heard of order {id} ({reference}), which is not there" for id, reference in phantoms]
    return _finding("every OrderCreated reached each subscriber", wrong, f"{len(created)} events to {len(SUBSCRIBERS)}")


def one_job_per_event(evidence: Evidence) -> Finding:
    """However often relays died between publishing it and saying so."""
    jobs = {(row.subscriber, row.order_id, row.event_id, row.job_id, row.enqueued_us) for row in evidence.deliveries}
    per_order = Counter((subscriber, order_id) for subscriber, order_id, *_ in sorted(jobs))
    doubled = [(count, *who) for who, count in per_order.items() if count > 1]
    wrong = [f"{count} jobs of {subscriber} for order {id}" for count, subscriber, id in doubled]
    return _finding("no OrderCreated made two jobs of a subscriber", wrong, f"{len(jobs)} jobs")


def payments_add_up(evidence: Evidence) -> Finding:
    """One entry for each order, of what it costs."""
    booked = Counter(evidence.payments)
    owed = Counter((order.id, order.total_cents) for order in evidence.orders)
    wrong = [f"order {id}: {cents} not booked" for id, cents in (owed - booked).elements()]
    wrong += [f"order {id}: {cents} too much" for id, cents in (booked - owed).elements()]
    total = sum(cents for _, cents in evidence.payments)
    return _finding(
        "the ledger has one payment per order", wrong, f"{len(evidence.payments)} payments, {total / 100:.2f}"
    )


def statistics_add_up(evidence: Evidence) -> Finding:
    """Adding is not safe to run twice by itself."""
    sold = _sold(evidence)
    wrong = [f"{sku}: {sold[sku]} sold, {count} counted" for sku, count in evidence.sold.items() if sold[sku] != count]
    return _finding("the statistics count every unit once", wrong, f"{sum(evidence.sold.values())} units")


def stock_adds_up(evidence: Evidence) -> Finding:
    """What is gone from the shelf is what was sold, item by item."""
    sold = _sold(evidence)
    wrong = [
        f"{sku}: {before} - {sold[sku]} sold, but {evidence.stock_after.get(sku)} left"
        for sku, before in evidence.stock_before.items()
        if before - sold[sku] != evidence.stock_after.get(sku) or before < sold[sku]
    ]
    return _finding("stock = stock before - units sold", wrong, f"{sold.total()} units of {len(sold)} items")


def customers_see_it(evidence: Evidence) -> Finding:
    """Every order's page says "confirmed"."""
    wrong = [f"order {id}: {status}" for id, status in evidence.statuses.items() if status != "confirmed"]
    return _finding("every order page says confirmed", wrong, f"{len(evidence.statuses)} pages")


def no_job_left(evidence: Evidence) -> Finding:
    """Every job has ended: none lost on the way, none stuck."""
    left = [f"{count} {state}" for state, count in evidence.unfinished.items() if count]
    return _finding("no job is ready, running or scheduled", left, "none")


def no_event_left(evidence: Evidence) -> Finding:
    """Every committed event got out."""
    wrong = [f"{evidence.waiting_events} wait or are parked"] if evidence.waiting_events else []
    return _finding("no event waits in the outbox", wrong, "none")


def only_poison_failed(evidence: Evidence) -> Finding:
    """The job that kills its workers was stopped, and took no other with it."""
    alone = [(job.id, job.reason) for job in evidence.failed] == [(evidence.poison, "crashed")]
    stopped = all(job.crashes >= 3 for job in evidence.failed)
    found = _few(f"{job.task.rpartition('.')[2]}: {job.reason} x {job.crashes}" for job in evidence.failed)
    return Finding("the poison job failed, and it alone", alone and stopped, found or "none failed")


CHECKS: tuple[Callable[[Evidence], Finding], ...] = (
    scenes,
    no_order_lost,
    one_order_per_purchase,
    one_mail_per_order,
    one_webhook_per_order,
    every_event_arrived,
    one_job_per_event,
    payments_add_up,
    statistics_add_up,
    stock_adds_up,
    customers_see_it,
    no_job_left,
    no_event_left,
    only_poison_failed,
)


def repeats(ids: Iterable[str]) -> int:
    """How many deliveries repeated an earlier one. Each is a process that died between sending and writing it down."""
    return sum(count - 1 for count in Counter(ids).values())


def _sold(evidence: Evidence) -> Counter[str]:
    sold: Counter[str] = Counter()
    for order in evidence.orders:
        sold[order.sku] += order.quantity
    return sold


def _told(claim: str, evidence: Evidence, sent: Iterable[str], type_: str) -> Finding:
    deliveries = list(sent)
    expected = {f"{type_}-{order.id}" for order in evidence.orders}
    wrong = [f"missing {id}" for id in sorted(expected - set(deliveries))]
    wrong += [f"unexpected {id}" for id in sorted(set(deliveries) - expected)]
    return _finding(claim, wrong, f"{len(set(deliveries))} distinct, {repeats(deliveries)} came twice with the same id")


def _repeated(counts: Counter[str]) -> list[str]:
    return [f"{count} x {what}" for what, count in counts.items() if count > 1]


def _finding(claim: str, wrong: Iterable[object], right: str) -> Finding:
    problems = [str(problem) for problem in wrong]
    return Finding(claim, not problems, _few(problems) if problems else right)


def _few(texts: Iterable[str]) -> str:
    """The first three, and how many more there are."""
    all_texts = list(texts)
    more = f" and {len(all_texts) - 3} more" if len(all_texts) > 3 else ""
    return ", ".join(all_texts[:3]) + more
