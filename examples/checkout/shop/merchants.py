"""Merchants hear of each order once its payment has ended: by a signed webhook, until they answer "success"."""

from __future__ import annotations

from sqlalchemy.orm import Session

from headrace.webhooks import Delivery, Webhooks

from .app import PATIENTLY, app
from .database import database
from .models import Item, Order
from .schedules import WEBHOOK_TRIES, WEBHOOKS
from .settings import settings


def wants_webhooks(sku: str) -> bool:
    """Does the merchant of this item still want to be told?"""
    with database().reading() as session:
        return session.get_one(Item, sku).merchant_listens


webhooks = Webhooks(
    app,
    secret=settings().merchants_secret,
    schedule=WEBHOOKS,
    max_polls=WEBHOOK_TRIES,
    success="success",
    timeout=settings().patience,
    enabled=wants_webhooks,
    allow="127.0.0.1",  # where the merchants of this example are; without it only the public internet is reached
    retry=PATIENTLY,
)


def tell(session: Session, order: Order) -> None:
    """Tell the merchant how the payment of an order has ended, once the session commits."""
    what = {"order_id": order.id, "sku": order.sku, "quantity": order.quantity, "payment": order.payment}
    webhooks.send(
        f"{settings().merchants_url}/{order.sku}",
        what,
        event=f"order.{order.payment.lower()}",
        endpoint=order.sku,
        id=f"order-{order.id}",
        transaction=session,
    )


@webhooks.on_disabled
def stop_telling(delivery: Delivery) -> None:
    """The merchant has answered 410 Gone."""
    with database().writing() as session:
        session.get_one(Item, delivery.endpoint).merchant_listens = False
