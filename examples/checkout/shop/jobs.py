"""The shop's background jobs, and what it does when an event comes.

headrace work --app examples.checkout.shop.jobs:app            runs the jobs
headrace outbox relay --app examples.checkout.shop.jobs:app    makes jobs of the events
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import update
from sqlalchemy.orm import Session

from headrace import Fail, Retry, current_job
from headrace.outbox import Event

from . import mailing
from .app import PATIENTLY, app, smtp
from .database import database
from .drills import reach
from .models import CONFIRMATION, Delivery, Invoice, Item
from .notifications import notify
from .payments import charge
from .price_lists import UnknownCurrency, parse
from .settings import settings

__all__ = ["OrderCreated", "app", "charge", "import_price_list", "send_confirmation"]


@app.task(queue="mail", circuit=smtp, retry=PATIENTLY, timeout=10)
def send_confirmation(order_id: int) -> None:
    """Mail the customer that the order is confirmed."""
    notify(database(), order_id, CONFIRMATION, mailing.send)


# No `except` helps against a handler that kills its process. The third time the job is failed, and others live.
# What an operator has to correct fails at once, and is kept for a day after it has been done.
@app.task(queue="imports", retry=Retry(max_crashes=3, on=[(UnknownCurrency, Fail)]), keep="1d")
def import_price_list(list_id: int, currency: str = "EUR") -> None:
    """Read a supplier's prices."""
    with database().writing() as session:
        parse(session, list_id, currency, current_job().id)


@dataclass(frozen=True)
class OrderCreated:
    """The event: what other departments, or other services, need to know of an order."""

    order_id: int
    idempotency_key: str
    sku: str
    quantity: int
    total_cents: int


# A subscriber may run twice, as any job. What these two do must count once, and there are two ways to that.
@app.on("OrderCreated", queue="books", retry=PATIENTLY, timeout=10)
def book_invoice(order: OrderCreated, event: Event) -> None:
    """Write the invoice into the ledger, and end the job in the same transaction: no run can follow one that did."""
    with database().writing() as session:
        if not _ends_here(session, event):
            return
        _note_delivery(session, "book_invoice", order, event)
        session.add(Invoice(order_id=order.order_id, cents=order.total_cents))
        session.flush()
        reach("invoice.before_commit")
    reach("invoice.after_commit")


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
    if settings().one_database:
        current_job().complete(transaction=session)
        return True
    with app.inbox(session, event.id, consumer="ledger") as first:
        return first


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
            idempotency_key=order.idempotency_key,
        )
    )
