"""The payment gateway, as the shop calls it."""

from __future__ import annotations

from functools import cache

import httpx2

from .settings import settings


def charge(order_id: int, cents: int, key: str) -> str:
    """Charge the customer, and return the gateway's number for it. With the same `key` again it is the same charge."""
    order = {"order_id": order_id, "cents": cents}
    answer = client().post("/charges", json=order, headers={"Idempotency-Key": f'"{key}"'})
    return str(answer.raise_for_status().json()["trade_no"])


def status(trade_no: str) -> str:
    """PAID, CLOSED, or another word while that is not known."""
    return str(client().get(f"/charges/{trade_no}").raise_for_status().json()["status"])


@cache
def client() -> httpx2.Client:
    """One for all threads: it keeps connections open between jobs."""
    return httpx2.Client(base_url=settings().gateway_url, timeout=settings().patience)
