"""Placing an order: its rows, its jobs and its event are one transaction. Nothing in here knows of HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from .database import Database
from .drills import reach
from .jobs import OrderCreated, app, charge, send_confirmation
from .models import Item, Order
from .settings import settings


class UnknownItem(Exception):
    """The shop does not sell this."""


class OutOfStock(Exception):
    """Fewer are left than were asked for."""


@dataclass(frozen=True)
class Wanted:
    """What a customer asks for."""

    customer_email: str
    sku: str
    quantity: int


@contextmanager
def placing(database: Database, wanted: Wanted, key: str) -> Iterator[tuple[Session, Order]]:
    """Create the order, take its units off the stock, and enqueue what follows from it: all of it, or nothing.

    The block belongs to the transaction, which commits at its end. `key` is the customer's, the same for each click.

    Raises:
        UnknownItem: there is no such item.
        OutOfStock: not enough units are left.
    """
    with database.writing() as session:
        yield session, _place(session, wanted, key)
        reach("order.before_commit")
    reach("order.after_commit")


def _place(session: Session, wanted: Wanted, key: str) -> Order:
    # FOR UPDATE on a server: whoever else wants this item waits here until we commit, then reads what we left.
    # SQLite has no FOR UPDATE, and needs none: `writing` holds the only write lock.
    item = session.get(Item, wanted.sku, with_for_update=True)
    if item is None:
        raise UnknownItem(wanted.sku)
    if not settings().one_database and (earlier := _earlier_click(session, key)):
        return earlier
    if item.stock < wanted.quantity:
        raise OutOfStock(f"{item.stock} of {wanted.sku} left, {wanted.quantity} asked for")
    item.stock -= wanted.quantity
    order = Order(
        idempotency_key=key,
        customer_email=wanted.customer_email,
        sku=wanted.sku,
        quantity=wanted.quantity,
        total_cents=wanted.quantity * item.price_cents,
    )
    session.add(order)
    session.flush()  # the database has given it an id
    reach("order.between_statements")
    _announce(session, order)
    return order


def _announce(session: Session, order: Order) -> None:
    """Two jobs and an event, in the order's own transaction: none of them without the order, nor it without them."""
    charge.using(transaction=session, id=f"charge:{order.id}").enqueue(order_id=order.id)
    send_confirmation.using(transaction=session, id=f"mail:{order.id}").enqueue(order_id=order.id)
    created = OrderCreated(order.id, order.idempotency_key, order.sku, order.quantity, order.total_cents)
    app.outbox.add(session, "OrderCreated", aggregate=("Order", order.id), payload=created)


def _earlier_click(session: Session, key: str) -> Order | None:
    """The order of a server that died after its commit and before the answer was stored, with the jobs, in Redis.

    In one database this does not happen: order and answer commit together. Looked for under the lock of the item and
    before its stock, so that the second click on the last unit is no new buyer.
    """
    return session.scalar(select(Order).where(Order.idempotency_key == key))
