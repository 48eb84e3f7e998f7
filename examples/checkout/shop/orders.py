"""Placing an order: its rows, its jobs and its event are one transaction. Nothing in here knows of HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from .database import Database
from .drills import reach
from .jobs import OrderCreated, app, notify_merchant, send_confirmation
from .models import Item, Order


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
    """Create the order, take its units off the stock, and enqueue what follows from it: all of it, or nothing.

    Raises:
        UnknownItem: there is no such item.
        OutOfStock: not enough units are left.
        ReferenceTaken: the client reference was used for another purchase.
    """
    try:
        with database.writing() as session:
            placed = _place(session, wanted)
            reach("order.before_commit")
    except IntegrityError:
        # Two clicks with one reference, for two items: each held another row's lock, and the unique constraint decided.
        with database.reading() as session:
            if earlier := _earlier_click(session, wanted):
                return earlier
        raise
    reach("order.after_commit")
    return placed


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
        total_cents=wanted.quantity * item.price_cents,
    )
    session.add(order)
    session.flush()  # the database has given it an id
    reach("order.between_statements")
    _announce(session, order)
    return Placed(order.id, new=True)


def _announce(session: Session, order: Order) -> None:
    """Two jobs and an event, in the order's own transaction: none of them without the order, nor it without them."""
    send_confirmation.using(transaction=session, id=f"mail:{order.id}").enqueue(order_id=order.id)
    notify_merchant.using(transaction=session, id=f"webhook:{order.id}").enqueue(order_id=order.id)
    created = OrderCreated(order.id, order.client_reference, order.sku, order.quantity, order.total_cents)
    app.outbox.add(session, "OrderCreated", aggregate=("Order", order.id), payload=created)


def _earlier_click(session: Session, wanted: Wanted) -> Placed | None:
    order = session.scalar(select(Order).where(Order.client_reference == wanted.client_reference))
    if order is None:
        return None
    if (order.customer_email, order.sku, order.quantity) != (wanted.customer_email, wanted.sku, wanted.quantity):
        raise ReferenceTaken(wanted.client_reference)
    return Placed(order.id, new=False)
