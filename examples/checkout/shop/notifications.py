"""Tell the world about an order, in a way that is safe to run twice."""

from __future__ import annotations

from collections.abc import Callable

from .database import Database
from .drills import reach
from .models import CONFIRMATION, Notification, Order, utc_now


class UnknownOrder(Exception):
    """There is no order with this id."""


def notify(database: Database, order_id: int, type_: str, send: Callable[[Order, str], None]) -> bool:
    """Insert the row or take the one that is there, send, then set `sent_at`. False if it had been sent before.

    No transaction is open while `send` talks to the network. A process that dies before it has sent leaves a row
    without `sent_at`, so the next run sends. One that dies after sending makes the next run send once more, under the
    same message id: no order of these steps avoids both, and a mail twice is better than none.
    """
    with database.writing() as session:
        order = session.get(Order, order_id, with_for_update=True)
        if order is None:
            raise UnknownOrder(f"there is no order {order_id}")
        notification = session.get(Notification, (order_id, type_))
        if notification is None:
            notification = Notification(order_id=order_id, type=type_)
            session.add(notification)
        if notification.sent_at is not None:
            return False

    reach(f"{type_}.after_insert")
    send(order, notification.message_id)
    reach(f"{type_}.after_send")

    with database.writing() as session:
        now = utc_now()
        session.get_one(Notification, (order_id, type_)).sent_at = now
        if type_ == CONFIRMATION:
            session.get_one(Order, order_id).confirmation_email_sent_at = now
    return True
