"""Placing an order. Nothing in here knows of HTTP or of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .database import Database
from .models import Item, Notification, Order

CONFIRMATION = "confirmation_email"
WEBHOOK = "merchant_webhook"


class UnknownItem(Exception):
    """The shop does not sell this."""


class OutOfStock(Exception):
    """Fewer are left than were asked for."""


class ReferenceTaken(Exception):
    """The client reference belongs to an order for something else."""


@dataclass(frozen=True)
class Wanted:
    """What a customer asks for."""

    customer_email: str
    sku: str
    quantity: int
    client_reference: str


@dataclass(frozen=True)
class Placed:
    """`new` is False when an earlier click had placed the order already."""

    order_id: int
    new: bool


def place(database: Database, wanted: Wanted) -> Placed:
    """Create the order and take its units off the stock, both or neither.

    Raises:
        UnknownItem: there is no such item.
        OutOfStock: not enough units are left.
        ReferenceTaken: the client reference was used for another purchase.
    """
    try:
        with database.writing() as session:
            return _place(session, wanted)
    except IntegrityError:
        # Two clicks with one reference, for two items: each held another row's lock, and the unique constraint decided.
        with database.reading() as session:
            if earlier := _earlier_click(session, wanted):
                return earlier
        raise


def _place(session: Session, wanted: Wanted) -> Placed:
    # FOR UPDATE on a server: whoever else wants this item waits here until we commit, then reads what we left.
    # SQLite has no FOR UPDATE, and needs none: `writing` holds the only write lock.
    item = session.get(Item, wanted.sku, with_for_update=True)
    if item is None:
        raise UnknownItem(wanted.sku)
    # Looked for under the lock and before the stock: the second click on the last unit is no new buyer.
    if earlier := _earlier_click(session, wanted):
        return earlier
    if item.stock < wanted.quantity:
        raise OutOfStock(f"{item.stock} of {wanted.sku} left, {wanted.quantity} asked for")
    item.stock -= wanted.quantity
    order = Order(
        client_reference=wanted.client_reference,
        customer_email=wanted.customer_email,
        sku=wanted.sku,
        quantity=wanted.quantity,
    )
    session.add(order)
    session.flush()
    return Placed(order.id, new=True)


def _earlier_click(session: Session, wanted: Wanted) -> Placed | None:
    order = session.scalar(select(Order).where(Order.client_reference == wanted.client_reference))
    if order is None:
        return None
    if (order.customer_email, order.sku, order.quantity) != (wanted.customer_email, wanted.sku, wanted.quantity):
        raise ReferenceTaken(wanted.client_reference)
    return Placed(order.id, new=False)


def with_something_unsent(database: Database, after: datetime, before: datetime) -> list[int]:
    """The ids of orders placed in that time of which the customer or the merchant has not been told, oldest first."""
    told = [
        select(Notification.order_id)
        .where(Notification.order_id == Order.id, Notification.type == type_, Notification.sent_at.is_not(None))
        .exists()
        for type_ in (CONFIRMATION, WEBHOOK)
    ]
    unsent = select(Order.id).where(Order.placed_at.between(after, before), or_(*(~each for each in told)))
    with database.reading() as session:
        return list(session.scalars(unsent.order_by(Order.id)))
