"""The shop's background jobs. Workers run them: headrace work --app examples.checkout.shop.jobs:app"""

from __future__ import annotations

import smtplib
from datetime import timedelta
from email.message import EmailMessage
from functools import cache

import httpx2

from headrace import Exponential, Fail, Headrace, Job, Retry

from .database import database
from .models import Order, utc_now
from .notifications import UnknownOrder, notify
from .orders import CONFIRMATION, WEBHOOK, with_something_unsent
from .price_lists import parse
from .settings import settings

# A killed worker's jobs run again after one lease. Two seconds keep the demo short; the default of 30 suits most.
# On SQLite a heartbeat may have to wait for the file, so a short lease needs a short `busy_timeout`.
app = Headrace(settings().store_url, name=settings().store_name, lease=2, heartbeat=0.5, busy_timeout=0.6)


class AddressRefused(Exception):
    """The customer's mail server will never take mail for this address."""


# An outage is waited out, a few seconds apart with jitter, so that not all come back at once. Minutes suit real life.
# What no waiting can mend fails at once.
PATIENTLY = Retry(
    max_attempts=100,
    backoff=Exponential(base=0.2, factor=2, cap=1.5, jitter="equal"),
    on=[((UnknownOrder, AddressRefused), Fail)],
)


@app.task(queue="mail", retry=PATIENTLY, timeout=10)
def send_confirmation(order_id: int) -> None:
    """Mail the customer that the order is confirmed."""
    notify(database(), order_id, CONFIRMATION, _mail)


@app.task(queue="webhooks", retry=PATIENTLY, timeout=10)
def notify_merchant(order_id: int) -> None:
    """Tell the merchant what to pack."""
    notify(database(), order_id, WEBHOOK, _post)


# No `except` helps against a handler that kills its process. After the third time the job is failed, and others live.
@app.task(queue="imports", retry=Retry(max_crashes=3))
async def import_price_list(list_id: int) -> None:
    """Read a supplier's prices."""
    parse(list_id)


def enqueue_for(order_id: int) -> list[Job]:
    """Enqueue what follows from an order. Harmless to repeat: the ids follow from the order, so one job is one job."""
    return [
        send_confirmation.using(id=f"mail:{order_id}").enqueue(order_id=order_id),
        notify_merchant.using(id=f"webhook:{order_id}").enqueue(order_id=order_id),
    ]


def reconcile(grace: timedelta = timedelta(seconds=3)) -> int:
    """Enqueue what an order is owed but never got, and return how many jobs that were.

    The web server commits an order, then enqueues its jobs; if it dies in between, or the job store is down, the order
    stands there without jobs. So the web server sweeps at its start and every few seconds. Orders younger than `grace`
    may be between the two steps right now. Orders older than a day are left alone: that long the store remembers an id.
    """
    now = utc_now()
    owed = with_something_unsent(database(), after=now - timedelta(days=1), before=now - grace)
    return sum(not job.duplicate for order_id in owed for job in enqueue_for(order_id))


def mail_was_given_up(order_id: int) -> bool:
    """Is the confirmation of this order among the failed jobs?"""
    job = app.jobs.get(f"mail:{order_id}")
    return job is not None and job.state == "failed"


def _mail(order: Order, message_id: str) -> None:
    message = EmailMessage()
    message["Message-ID"] = f"<{message_id}@shop.example>"  # the same in every run: a mail reader shows it once
    message["From"] = "orders@shop.example"
    message["To"] = order.customer_email
    message["Subject"] = f"Your order {order.id}"
    message.set_content(f"Thank you! {order.quantity} x {order.sku} will be with you soon.")
    with smtplib.SMTP(settings().smtp_host, settings().smtp_port, timeout=5) as server:
        try:
            server.send_message(message)
        except smtplib.SMTPRecipientsRefused as refused:
            code, reason = refused.recipients[order.customer_email]
            if code >= 500:  # 4xx says: try again later
                raise AddressRefused(f"{order.customer_email}: {code} {reason!r}") from refused
            raise


def _post(order: Order, message_id: str) -> None:
    body = {"type": "order.placed", "order_id": order.id, "sku": order.sku, "quantity": order.quantity}
    answer = merchant_client().post(settings().merchant_url, json=body, headers={"webhook-id": message_id})
    answer.raise_for_status()


@cache
def merchant_client() -> httpx2.Client:
    """One for all threads: it keeps connections open between jobs."""
    return httpx2.Client(timeout=5)
