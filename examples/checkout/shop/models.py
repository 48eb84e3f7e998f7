"""The shop's tables."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime, ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


def utc_now() -> datetime:
    """Aware: a naive time means something else on the next machine."""
    return datetime.now(UTC)


class Base(DeclarativeBase):
    """The tables of this shop."""


class Item(Base):
    """Something to sell, and how many are left."""

    __tablename__ = "items"
    __table_args__ = (CheckConstraint("stock >= 0", name="stock_is_never_negative"),)

    sku: Mapped[str] = mapped_column(String(64), primary_key=True)
    stock: Mapped[int]
    price_cents: Mapped[int] = mapped_column(default=1990)
    sold: Mapped[int] = mapped_column(default=0)  # units, counted from events: `jobs.count_sale`


class Order(Base):
    """What a customer bought. `client_reference` is made by the customer's browser, once per click of "buy"."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    client_reference: Mapped[str] = mapped_column(String(64), unique=True)
    customer_email: Mapped[str] = mapped_column(String(254))
    sku: Mapped[str] = mapped_column(ForeignKey("items.sku"))
    quantity: Mapped[int]
    total_cents: Mapped[int]
    placed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=utc_now)
    confirmation_email_sent_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


CONFIRMATION = "confirmation_email"
WEBHOOK = "merchant_webhook"


class Notification(Base):
    """Something the world is told about an order: one row per order and type, so it is told once.

    `sent_at` is the only proof of sending. A row without it was begun by a run that may have died before or
    after sending, so the next run sends again, under the same `message_id`: whoever receives it twice can tell.
    """

    __tablename__ = "notifications"

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    type: Mapped[str] = mapped_column(String(32), primary_key=True)
    sent_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))

    @property
    def message_id(self) -> str:
        """The same in every run: it follows from what the row is about."""
        return f"{self.type}-{self.order_id}"


class Payment(Base):
    """An entry of the ledger. The table would take two for one order: it is `jobs.book_payment` that makes one."""

    __tablename__ = "payments"

    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int]
    cents: Mapped[int]


class Delivery(Base):
    """Which job brought which event to which subscriber: written down for the audit alone.

    Two runs of one job make one row. Two jobs for one event would make two, even if the second had the first one's
    id: it would have been enqueued at another time.
    """

    __tablename__ = "deliveries"

    event_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    subscriber: Mapped[str] = mapped_column(String(32), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    enqueued_us: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    order_id: Mapped[int]
    client_reference: Mapped[str] = mapped_column(String(64))
