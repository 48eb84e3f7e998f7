"""The final audit: count what reached the world against what was ordered. Pure: evidence in, findings out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from .evidence import Evidence, Finding, finding
from .morning_claims import MORNING
from .outage_claims import OUTAGE
from .shop.models import CONFIRMATION, TIMEOUT

SUBSCRIBERS = ("book_invoice", "count_sale")


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
    return finding("every order with a receipt is there", lost, f"{len(stored)} orders")


def one_order_per_key(evidence: Evidence) -> Finding:
    """However often the button was pressed, and wherever the answer was lost."""
    orders = Counter(order.key for order in evidence.orders)
    wrong = [f"{count} orders under the key {key}" for key, count in orders.items() if count > 1]
    answers = {(receipt.purchase.key, receipt.order_id) for receipt in evidence.receipts if receipt.order_id}
    told = Counter(key for key, _ in answers)
    wrong += [f"{count} orders answered under the key {key}" for key, count in told.items() if count > 1]
    refused = [receipt for receipt in evidence.receipts if receipt.status not in (201, 409)]
    wrong += [f"{receipt.status} for the key {receipt.purchase.key}" for receipt in refused]
    replayed = sum(receipt.replayed for receipt in evidence.receipts)
    return finding("no Idempotency-Key made two orders", wrong, f"{len(orders)} keys, {replayed} answers replayed")


def one_charge_per_order(evidence: Evidence) -> Finding:
    """At the gateway, which is where the money is."""
    charged = Counter((charge.order_id, charge.cents) for charge in evidence.charges)
    owed = Counter((order.id, order.total_cents) for order in evidence.orders)
    wrong = [f"order {id}: {cents} not charged" for id, cents in (owed - charged).elements()]
    wrong += [f"order {id}: {cents} charged too much" for id, cents in (charged - owed).elements()]
    found = f"{len(evidence.charges)} charges, {evidence.asked_again} asked for again"
    return finding("every order was charged once", wrong, found)


def every_payment_ended(evidence: Evidence) -> Finding:
    """As the gateway says, or in TIMEOUT where it never said."""
    gateway: dict[int, list[str]] = {order.id: [] for order in evidence.orders}
    for charge in evidence.charges:
        gateway.setdefault(charge.order_id, []).append(charge.status)
    ends = Counter(order.payment for order in evidence.orders)
    wrong = [
        f"order {order.id}: {order.payment}, at the gateway {' and '.join(gateway[order.id]) or 'unknown'}"
        for order in evidence.orders
        if order.payment not in (TIMEOUT, *gateway[order.id])
    ]
    found = ", ".join(f"{count} {payment}" for payment, count in ends.most_common())
    return finding("every order ends PAID, CLOSED or TIMEOUT", wrong, found)


def one_end_per_poll(evidence: Evidence) -> Finding:
    """`on_final` or `on_timeout`, never both, never none."""
    ends = Counter(trade_no for trade_no, _ in evidence.poll_ends)
    polled = {order.trade_no or f"order {order.id}" for order in evidence.orders}
    wrong = [f"{trade_no}: no hook" for trade_no in sorted(polled - ends.keys())]
    wrong += [
        f"{trade_no}: " + " and ".join(sorted(hook for other, hook in evidence.poll_ends if other == trade_no))
        for trade_no, count in ends.items()
        if count > 1
    ]
    hooks = Counter(hook for _, hook in evidence.poll_ends)
    found = ", ".join(f"{count} {hook}" for hook, count in hooks.most_common())
    return finding("every payment poll ended once", wrong, found)


def one_mail_per_order(evidence: Evidence) -> Finding:
    """By distinct Message-ID: that is how a mail program tells a repeated mail from a second one."""
    return _told(
        "every order has one mail",
        evidence,
        (mail.message_id.partition("@")[0] for mail in evidence.mails),
        CONFIRMATION,
    )


def one_webhook_per_order(evidence: Evidence) -> Finding:
    """By distinct webhook id: that is how a merchant tells a repeated webhook from a second one."""
    ids = [webhook.id for webhook in evidence.webhooks]
    return _told("every order has one webhook", evidence, ids, "order", but=evidence.left)


def webhooks_say_how_it_ended(evidence: Evidence) -> Finding:
    """Signed, and of the end that the order has."""
    ends = {order.id: order.payment for order in evidence.orders}
    wrong = [f"order {id}: {said}" for _, id, said, _ in evidence.webhooks if ends.get(id) != said]
    wrong += [f"{evidence.forged} without a good signature"] if evidence.forged else []
    return finding("webhooks are signed, and true", wrong, f"{len(evidence.webhooks)} verified")


def no_webhook_after_410(evidence: Evidence) -> Finding:
    """A merchant who wants no more is left alone."""
    ids = sorted(set(evidence.refused))
    return finding("a merchant who answers 410 is asked no more", ids[1:], f"{len(ids)} answered 410")


def every_event_arrived(evidence: Evidence) -> Finding:
    """At each subscriber, for each order; and for nothing else: an order that was rolled back has no event."""
    created = {(order.id, order.key) for order in evidence.orders}
    wrong = []
    for subscriber in SUBSCRIBERS:
        told = {(row.order_id, row.key) for row in evidence.deliveries if row.subscriber == subscriber}
        wrong += [f"{subscriber} missed order {id}" for id, _ in sorted(created - told)]
        phantoms = sorted(told - created)
        wrong += [f"{subscriber} heard of order {id} ({reference}), which is not there" for id, reference in phantoms]
    return finding("every OrderCreated reached each subscriber", wrong, f"{len(created)} events to {len(SUBSCRIBERS)}")


def one_job_per_event(evidence: Evidence) -> Finding:
    """However often relays died between publishing it and saying so."""
    jobs = {(row.subscriber, row.order_id, row.event_id, row.job_id, row.enqueued_us) for row in evidence.deliveries}
    per_order = Counter((subscriber, order_id) for subscriber, order_id, *_ in sorted(jobs))
    doubled = [(count, *who) for who, count in per_order.items() if count > 1]
    wrong = [f"{count} jobs of {subscriber} for order {id}" for count, subscriber, id in doubled]
    return finding("no OrderCreated made two jobs of a subscriber", wrong, f"{len(jobs)} jobs")


def invoices_add_up(evidence: Evidence) -> Finding:
    """One entry for each order, of what it costs."""
    booked = Counter(evidence.invoices)
    owed = Counter((order.id, order.total_cents) for order in evidence.orders)
    wrong = [f"order {id}: {cents} not booked" for id, cents in (owed - booked).elements()]
    wrong += [f"order {id}: {cents} too much" for id, cents in (booked - owed).elements()]
    total = sum(cents for _, cents in evidence.invoices)
    return finding(
        "the ledger has one invoice per order", wrong, f"{len(evidence.invoices)} invoices, {total / 100:.2f}"
    )


def statistics_add_up(evidence: Evidence) -> Finding:
    """Adding is not safe to run twice by itself."""
    sold = _sold(evidence)
    wrong = [f"{sku}: {sold[sku]} sold, {count} counted" for sku, count in evidence.sold.items() if sold[sku] != count]
    return finding("the statistics count every unit once", wrong, f"{sum(evidence.sold.values())} units")


def stock_adds_up(evidence: Evidence) -> Finding:
    """What is gone from the shelf is what was sold, item by item."""
    sold = _sold(evidence)
    wrong = [
        f"{sku}: {before} - {sold[sku]} sold, but {evidence.stock_after.get(sku)} left"
        for sku, before in evidence.stock_before.items()
        if before - sold[sku] != evidence.stock_after.get(sku) or before < sold[sku]
    ]
    return finding("stock = stock before - units sold", wrong, f"{sold.total()} units of {len(sold)} items")


def customers_see_it(evidence: Evidence) -> Finding:
    """Every order's page says "confirmed"."""
    wrong = [f"order {id}: {status}" for id, status in evidence.statuses.items() if status != "confirmed"]
    return finding("every order page says confirmed", wrong, f"{len(evidence.statuses)} pages")


def no_job_left(evidence: Evidence) -> Finding:
    """Every job has ended: none lost on the way, none stuck."""
    left = [f"{count} {state}" for state, count in evidence.unfinished.items() if count]
    return finding("no job is ready, running, scheduled or parked", left, "none")


def no_event_left(evidence: Evidence) -> Finding:
    """Every committed event got out."""
    wrong = [f"{evidence.waiting_events} wait or are parked"] if evidence.waiting_events else []
    return finding("no event waits in the outbox", wrong, "none")


def no_job_failed(evidence: Evidence) -> Finding:
    """The operator has left none behind."""
    left = [f"{job.id} ({job.reason})" for job in evidence.failed]
    return finding("in the end no job is failed", left, "none")


CHECKS: tuple[Callable[[Evidence], Finding], ...] = (
    scenes,
    no_order_lost,
    one_order_per_key,
    one_charge_per_order,
    every_payment_ended,
    one_end_per_poll,
    one_mail_per_order,
    one_webhook_per_order,
    webhooks_say_how_it_ended,
    no_webhook_after_410,
    every_event_arrived,
    one_job_per_event,
    invoices_add_up,
    statistics_add_up,
    stock_adds_up,
    customers_see_it,
    no_job_left,
    no_event_left,
    no_job_failed,
    *OUTAGE,
    *MORNING,
)


def repeats(ids: Iterable[str]) -> int:
    """How many deliveries repeated an earlier one. Each is a process that died between sending and writing it down."""
    return sum(count - 1 for count in Counter(ids).values())


def _sold(evidence: Evidence) -> Counter[str]:
    sold: Counter[str] = Counter()
    for order in evidence.orders:
        sold[order.sku] += order.quantity
    return sold


def _told(claim: str, evidence: Evidence, sent: Iterable[str], type_: str, but: Collection[str] = ()) -> Finding:
    deliveries = list(sent)
    expected = {f"{type_}-{order.id}" for order in evidence.orders if order.sku not in but}
    wrong = [f"missing {id}" for id in sorted(expected - set(deliveries))]
    wrong += [f"unexpected {id}" for id in sorted(set(deliveries) - expected)]
    return finding(claim, wrong, f"{len(set(deliveries))} distinct, {repeats(deliveries)} came twice with the same id")
