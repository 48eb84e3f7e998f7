"""Getting paid: one charge for each order, and what has become of it, from a gateway that loses its answers.

A charge is begun by a job, and ends hours later: the gateway tells by a webhook, which may never come, so it is asked
too, until the answer is final or nobody waits for it any more. Whoever learns the end first marks the order.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from headrace import Pending, current_job

from . import gateway, merchants
from .app import PATIENTLY, app
from .database import database
from .drills import reach
from .models import CLOSED, PAID, PENDING, TIMEOUT, Order, PollEnd
from .schedules import PAYMENT_QUERIES, PAYMENT_TIMEOUT

FINAL = (PAID, CLOSED)


@app.task(queue="payments", once="charge:{order_id}", keep="1d", retry=PATIENTLY, timeout=10)
def charge(order_id: int) -> str:
    """Charge the customer, and begin to ask what becomes of it.

    A worker that dies after the charge has stored nothing of it. The next one comes with the same key, for which the
    gateway has one charge.
    """
    with database().reading() as session:
        cents = session.get_one(Order, order_id).total_cents
    trade_no = gateway.charge(order_id, cents, key=current_job().once_key)
    reach("charge.before_commit")
    with database().writing() as session:
        order = session.get_one(Order, order_id, with_for_update=True)
        if order.trade_no is None:  # else an earlier run got as far as this, and died before it could end the job
            order.trade_no = trade_no
            poll = payment_status.using(transaction=session, id=f"payment:{order_id}")
            poll.enqueue(trade_no=trade_no, order_id=order_id)
    reach("charge.after_commit")
    return trade_no


@app.poll(
    every=PAYMENT_QUERIES,
    give_up_after=PAYMENT_TIMEOUT,
    jitter=0.1,
    unique="{trade_no}",
    queue="payments",
    retry=PATIENTLY,
    timeout=10,
)
def payment_status(trade_no: str, order_id: int) -> Pending | str:
    """Ask the gateway."""
    status = gateway.status(trade_no)
    return status if status in FINAL else Pending(status)


@payment_status.pre_check
def known_already(order_id: int) -> str | None:
    """The gateway's webhook was quicker."""
    with database().reading() as session:
        payment = session.get_one(Order, order_id).payment
    return None if payment == PENDING else payment


@payment_status.on_final(retry=PATIENTLY)
def payment_ended(trade_no: str, order_id: int, result: str) -> None:
    """It is PAID or CLOSED."""
    with database().writing() as session:
        conclude(session, order_id, result)
        _note_end(session, trade_no, "on_final")


@payment_status.on_timeout(retry=PATIENTLY)
def payment_never_ended(trade_no: str, order_id: int) -> None:
    """Nobody knows, and nobody waits any longer."""
    with database().writing() as session:
        conclude(session, order_id, TIMEOUT)
        _note_end(session, trade_no, "on_timeout")


def notified(order_id: int, status: str) -> None:
    """The gateway has called."""
    if status in FINAL:
        with database().writing() as session:
            conclude(session, order_id, status)


def conclude(session: Session, order_id: int, payment: str) -> None:
    """Mark the order and have its merchant told, in one transaction. The first end counts, and later ones do not."""
    order = session.get_one(Order, order_id, with_for_update=True)
    if order.payment == PENDING:
        order.payment = payment
        merchants.tell(session, order)


def _note_end(session: Session, trade_no: str, hook: str) -> None:
    session.merge(PollEnd(trade_no=trade_no, hook=hook, job_id=current_job().id))
