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
    merchant_listens: Mapped[bool] = mapped_column(default=True)  # False once it has answered a webhook with 410


PENDING, PAID, CLOSED, TIMEOUT = "PENDING", "PAID", "CLOSED", "TIMEOUT"


class Order(Base):
    """What a customer bought. The key is the browser's, one for each purchase, however often its button is pressed.

    It need not be unique here: that there is one order for each key is seen to where the answers are kept.
    """

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    idempotency_key: Mapped[str] = mapped_column(String(255), index=True)
    customer_email: Mapped[str] = mapped_column(String(254))
    sku: Mapped[str] = mapped_column(ForeignKey("items.sku"))
    quantity: Mapped[int]
    total_cents: Mapped[int]
    trade_no: Mapped[str | None] = mapped_column(String(64))  # the gateway's, once it has been charged
    payment: Mapped[str] = mapped_column(String(16), default=PENDING)
    placed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), default=utc_now)
    confirmation_email_sent_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


CONFIRMATION = "confirmation_email"


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


class Invoice(Base):
    """An entry of the ledger. The table would take two for one order: it is `jobs.book_invoice` that makes one."""

    __tablename__ = "invoices"

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
    idempotency_key: Mapped[str] = mapped_column(String(255))


class PriceList(Base):
    """A price list that was imported. Two runs of one job make one row, two jobs would make two."""

    __tablename__ = "price_lists"

    list_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    currency: Mapped[str] = mapped_column(String(16))


class PollEnd(Base):
    """Which hook was called at the end of a poll: written down for the audit alone."""

    __tablename__ = "poll_ends"

    trade_no: Mapped[str] = mapped_column(String(64), primary_key=True)
    hook: Mapped[str] = mapped_column(String(16), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)
