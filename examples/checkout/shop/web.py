"""The shop's web server: uvicorn examples.checkout.shop.web:web"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from headrace.errors import StoreError

from . import jobs, orders
from .database import database
from .models import Order


class OrderRequest(BaseModel):
    """What the browser sends. It makes a new `client_reference` for each purchase, not for each click."""

    customer_email: Annotated[str, Field(max_length=254, pattern=r"^[^@\s,<>]+@[^@\s,<>]+$")]
    sku: Annotated[str, Field(min_length=1, max_length=64)]
    quantity: Annotated[int, Field(ge=1, le=1000)]
    client_reference: Annotated[str, Field(min_length=1, max_length=64)]


class OrderAnswer(BaseModel):
    """An order as its customer sees it."""

    order_id: int
    status: Literal["pending", "confirmed", "failed"]
    message: str


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    """Create what is missing."""
    await asyncio.to_thread(jobs.prepare)
    yield
    await jobs.app.aclose()
    database().close()


web = FastAPI(title="checkout", lifespan=lifespan)


# Plain functions: FastAPI runs them in threads, where blocking calls to the database and the job store are at home.
@web.post("/orders", status_code=201)
def place_order(request: OrderRequest, response: Response) -> OrderAnswer:
    """Place an order: 201, or 200 for a repeated click, which gets the same order."""
    placed = orders.place(database(), orders.Wanted(**request.model_dump()))
    response.status_code = 201 if placed.new else 200
    response.headers["Location"] = f"/orders/{placed.order_id}"
    return _as_the_customer_sees_it(placed.order_id)


@web.get("/orders/{order_id}", response_model=None)
def show_order(order_id: int) -> OrderAnswer | JSONResponse:
    """Tell how an order is doing."""
    with database().reading() as session:
        known = session.get(Order, order_id) is not None
    return _as_the_customer_sees_it(order_id) if known else _problem(404, "No such order", f"order {order_id}")


@web.post("/price-lists/{list_id}/import", status_code=202)
def import_price_list(list_id: int) -> dict[str, str]:
    """Have a supplier's price list read in the background."""
    return {"job_id": jobs.import_price_list.enqueue(list_id=list_id).id}


@web.get("/health")
def health() -> dict[str, str]:
    """Answer as soon as orders can be placed."""
    return {"status": "ok"}


def _as_the_customer_sees_it(order_id: int) -> OrderAnswer:
    with database().reading() as session:
        confirmed = session.get_one(Order, order_id).confirmation_email_sent_at is not None
    if confirmed:
        return OrderAnswer(order_id=order_id, status="confirmed", message="Your confirmation is in the mail.")
    try:
        failed = jobs.mail_was_given_up(order_id)
    except StoreError:
        failed = False  # not known to have failed; the order itself is safe
    if failed:
        return OrderAnswer(order_id=order_id, status="failed", message="We could not reach you by mail. Please call.")
    return OrderAnswer(order_id=order_id, status="pending", message="Your order is placed, a mail will follow.")


@web.exception_handler(orders.OutOfStock)
def out_of_stock(_request: Request, error: Exception) -> JSONResponse:
    """409: somebody else was quicker."""
    return _problem(409, "Out of stock", str(error))


@web.exception_handler(orders.ReferenceTaken)
def reference_taken(_request: Request, error: Exception) -> JSONResponse:
    """422: a mistake in the browser's code."""
    return _problem(422, "Client reference was used for a different order", str(error))


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
