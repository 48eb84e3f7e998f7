"""The shop's web server: uvicorn examples.checkout.shop.web:web"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from headrace.contrib.fastapi import required_key
from headrace.errors import StoreError
from headrace.http import IdempotencyMiddleware, IdempotentRequest
from headrace.webhooks import SignatureInvalid, verify

from . import jobs, orders, payments
from .app import LEASE
from .database import database
from .models import Order
from .settings import settings

KeyDep = Annotated[IdempotentRequest, Depends(required_key)]


class OrderRequest(BaseModel):
    """What the browser sends, with an Idempotency-Key: a new one for each purchase, not for each click."""

    customer_email: Annotated[str, Field(max_length=254, pattern=r"^[^@\s,<>]+@[^@\s,<>]+$")]
    sku: Annotated[str, Field(min_length=1, max_length=64)]
    quantity: Annotated[int, Field(ge=1, le=1000)]


class OrderAnswer(BaseModel):
    """An order as its customer sees it."""

    order_id: int
    status: Literal["pending", "confirmed", "failed"]
    payment: Literal["PENDING", "PAID", "CLOSED", "TIMEOUT"]
    message: str


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    """Create what is missing."""
    await asyncio.to_thread(jobs.prepare)
    yield
    await jobs.app.aclose()
    database().close()


web = FastAPI(title="checkout", lifespan=lifespan)
# An order is one transaction, so one that failed has done nothing, and its key may try again.
web.add_middleware(IdempotencyMiddleware, jobs.app, lease=LEASE, replay_errors="never")


# Plain functions: FastAPI runs them in threads, where blocking calls to the database and the job store are at home.
@web.post("/orders", status_code=201)
def place_order(request: OrderRequest, key: KeyDep) -> JSONResponse:
    """Place an order. A second click, or a second try after a lost answer, gets the answer of the first."""
    with orders.placing(database(), orders.Wanted(**request.model_dump()), key.key) as (session, order):
        placed = _pending(order)
        answer = JSONResponse(placed.model_dump(), 201, {"Location": f"/orders/{order.id}"})
        if settings().one_database:  # else the middleware keeps the answer, a moment after the commit
            key.complete(transaction=session, status=201, headers=answer.headers, body=bytes(answer.body))
    return answer


@web.post("/orders/{order_id}/charge", status_code=202)
def charge_order(order_id: int) -> dict[str, str]:
    """For the clerk who does not see that it has been done: it is not done twice."""
    return {"job_id": jobs.charge.enqueue(order_id=order_id).id}


@web.post("/payments/notifications", status_code=204)
async def payment_notified(request: Request) -> None:
    """The gateway tells how a payment has ended. It may come twice, or never: see payments.py."""
    body = await request.body()
    verify(settings().gateway_secret, request.headers, body)
    await asyncio.to_thread(payments.notified, **json.loads(body))


@web.get("/orders/{order_id}", response_model=None)
def show_order(order_id: int) -> OrderAnswer | JSONResponse:
    """Tell how an order is doing."""
    with database().reading() as session:
        known = session.get(Order, order_id) is not None
    return _as_the_customer_sees_it(order_id) if known else _problem(404, "No such order", f"order {order_id}")


@web.post("/price-lists/{list_id}/import", status_code=202)
def import_price_list(list_id: int, currency: str = "EUR") -> dict[str, str]:
    """Have a supplier's price list read in the background."""
    return {"job_id": jobs.import_price_list.enqueue(list_id=list_id, currency=currency).id}


@web.get("/health")
def health() -> dict[str, str]:
    """Answer as soon as orders can be placed."""
    return {"status": "ok"}


def _as_the_customer_sees_it(order_id: int) -> OrderAnswer:
    with database().reading() as session:
        order = session.get_one(Order, order_id)
    if order.confirmation_email_sent_at is not None:
        return _answer(order, "confirmed", "Your confirmation is in the mail.")
    try:
        failed = jobs.mail_was_given_up(order_id)
    except StoreError:
        failed = False  # not known to have failed; the order itself is safe
    return _answer(order, "failed", "We could not reach you by mail. Please call.") if failed else _pending(order)


def _pending(order: Order) -> OrderAnswer:
    return _answer(order, "pending", "Your order is placed, a mail will follow.")


def _answer(order: Order, status: str, message: str) -> OrderAnswer:
    return OrderAnswer.model_validate(
        {"order_id": order.id, "status": status, "payment": order.payment, "message": message}
    )


@web.exception_handler(orders.OutOfStock)
def out_of_stock(_request: Request, error: Exception) -> JSONResponse:
    """409: somebody else was quicker."""
    return _problem(409, "Out of stock", str(error))


@web.exception_handler(SignatureInvalid)
def not_from_the_gateway(_request: Request, error: Exception) -> JSONResponse:
    """401: anybody could say that a payment has ended."""
    return _problem(401, "Not signed", str(error))


@web.exception_handler(orders.UnknownItem)
def unknown_item(_request: Request, error: Exception) -> JSONResponse:
    """404: not in this shop."""
    return _problem(404, "No such item", str(error))


@web.exception_handler(StoreError)
def store_is_away(_request: Request, error: Exception) -> JSONResponse:
    """503: nothing has been stored, neither order nor job."""
    return _problem(503, "Try again in a moment", str(error))


def _problem(status: int, title: str, detail: str) -> JSONResponse:
    """An RFC 9457 problem: the one format in which this shop says no."""
    content = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return JSONResponse(content, status_code=status, media_type="application/problem+json")
