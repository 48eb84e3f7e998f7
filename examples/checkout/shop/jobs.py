"""The shop's background jobs, and what it does when an event comes.

headrace work --app examples.checkout.shop.jobs:app            runs the jobs
headrace outbox relay --app examples.checkout.shop.jobs:app    makes jobs of the events
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.orm import Session

from headrace import Exponential, Fail, Headrace, Retry, current_job
from headrace.outbox import Event

from . import sending
from .database import database
from .drills import reach
from .models import CONFIRMATION, WEBHOOK, Delivery, Item, Payment
from .notifications import UnknownOrder, notify
from .price_lists import parse
from .settings import settings

# A killed worker's jobs run again after one lease. Two seconds keep the demo short; the default of 30 suits most.
# On SQLite a heartbeat may have to wait for the file, so a short lease needs a short `busy_timeout`.
app = Headrace(
    settings().store_url or settings().database_url,
    name=settings().store_name,
    outbox=settings().database_url if settings().store_url else None,  # only where the jobs are elsewhere
    lease=2,
    heartbeat=0.5,
    busy_timeout=0.6,
)

# An outage is waited out, a few seconds apart with jitter, so that not all come back at once. Minutes suit real life.
# What no waiting can mend fails at once. By default a job under which three workers have died is given up; here workers
# are killed every few seconds, so that three deaths say nothing about the job.
PATIENTLY = Retry(
    max_attempts=100,
    max_crashes=10,
    backoff=Exponential(base=0.2, factor=2, cap=1.5, jitter="equal"),
    on=[((UnknownOrder, sending.AddressRefused), Fail)],
)


@app.task(queue="mail", retry=PATIENTLY, timeout=10)
def send_confirmation(order_id: int) -> None:
    """Mail the customer that the order is confirmed."""
    notify(database(), order_id, CONFIRMATION, sending.mail)


@app.task(queue="webhooks", retry=PATIENTLY, timeout=10)
def notify_merchant(order_id: int) -> None:
    """Tell the merchant what to pack."""
    notify(database(), order_id, WEBHOOK, sending.webhook)


# No `except` helps against a handler that kills its process. The third time the job is failed, and others live.
@app.task(queue="imports", retry=Retry(max_crashes=3))
async def import_price_list(list_id: int) -> None:
    """Read a supplier's prices."""
    parse(list_id)


@dataclass(frozen=True)
class OrderCreated:
    """The event: what other departments, or other services, need to know of an order."""

    order_id: int
    client_reference: str
    sku: str
    quantity: int
    total_cents: int


# A subscriber may run twice, as any job. What these two do must count once, and there are two ways to that.
@app.on("OrderCreated", queue="books", retry=PATIENTLY, timeout=10)
def book_payment(order: OrderCreated, event: Event) -> None:
    """Write the payment into the ledger, and end the job in the same transaction: no run can follow one that did."""
    with database().writing() as session:
        if not _ends_here(session, event):
            return
        _note_delivery(session, "book_payment", order, event)
        session.add(Payment(order_id=order.order_id, cents=order.total_cents))
        session.flush()
        reach("payment.before_commit")
    reach("payment.after_commit")


@app.on("OrderCreated", queue="books", retry=PATIENTLY, timeout=10)
def count_sale(order: OrderCreated, event: Event) -> None:
    """Count the units for the statistics, and note in the same transaction that this event has been received.

    This works wherever the jobs are, and for two jobs of one event as well.
    """
    with database().writing() as session, app.inbox(session, event.id, consumer="statistics") as first:
        _note_delivery(session, "count_sale", order, event)
        if first:
            session.execute(update(Item).where(Item.sku == order.sku).values(sold=Item.sold + order.quantity))


def _ends_here(session: Session, event: Event) -> bool:
    """End this job when the session commits. Not so in Redis: there the event is noted, and a second run finds it."""
    if settings().store_url:
        with app.inbox(session, event.id, consumer="ledger") as first:
            return first
    current_job().complete(transaction=session)
    return True


def prepare() -> None:
    """Make the tables that are missing. In a deploy: the shop's own migrations, and `headrace schema upgrade`."""
    app.jobs.queues()
    app.outbox.view()
    database().create_tables()


def mail_was_given_up(order_id: int) -> bool:
    """Is the confirmation of this order among the failed jobs?"""
    job = app.jobs.get(f"mail:{order_id}")
    return job is not None and job.state == "failed"


def _note_delivery(session: Session, subscriber: str, order: OrderCreated, event: Event) -> None:
    job = current_job()
    session.merge(
        Delivery(
            event_id=event.id,
            subscriber=subscriber,
            job_id=job.id,
            enqueued_us=job.enqueued_us,
            order_id=order.order_id,
            client_reference=order.client_reference,
        )
    )
