"""Getting paid: one charge for each order, whoever dies; its end by webhook, by poll, or by nobody."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from headrace.webhooks import new_secret, sign
from tests.checkout.conftest import KILLED, Shop, worker
from tests.waiting import wait_until

ONE_WORKER = "import asyncio; asyncio.run(jobs.app.worker(burst=True, concurrency=1, queues=['payments']).run())"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One will do: the demo runs on all of them."""
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def order_id(shop: Shop) -> int:
    shop.stock("teapot", 5)
    return shop.order()


def charges(shop: Shop) -> list[tuple[int, int]]:
    return [(charge.order_id, charge.cents) for charge in shop.gateway.charges]


def ended(shop: Shop, order_id: int) -> Callable[[], bool]:
    """Has the payment ended, its poll too, and has the merchant been told?"""
    return lambda: shop.payment(order_id) != "PENDING" and bool(shop.poll_ends()) and bool(shop.merchant.webhooks)


def test_a_poll_finds_the_payment_and_the_merchant_is_told(shop: Shop, order_id: int) -> None:
    with worker(shop):
        wait_until(ended(shop, order_id), what="the payment")
    assert charges(shop) == [(order_id, 1990)]
    assert shop.payment(order_id) == "PAID"
    assert shop.poll_ends() == [("trade-1", "on_final")]
    assert [(webhook.id, webhook.payment) for webhook in shop.merchant.webhooks] == [(f"order-{order_id}", "PAID")]
    assert shop.merchant.forged == 0


def test_a_payment_that_never_ends_is_timed_out_once(shop: Shop, order_id: int) -> None:
    shop.gateway.forgetful = True
    with worker(shop):
        wait_until(ended(shop, order_id), what="the timeout")
    assert shop.payment(order_id) == "TIMEOUT"
    assert shop.poll_ends() == [("trade-1", "on_timeout")]
    assert [webhook.payment for webhook in shop.merchant.webhooks] == ["TIMEOUT"]


@pytest.mark.parametrize("point", ["charge.before_commit", "charge.after_commit"])
def test_a_worker_killed_after_the_charge_charges_nothing_more(shop: Shop, order_id: int, point: str) -> None:
    (shop.drills / point).touch()
    assert shop.in_another_process(ONE_WORKER) == KILLED
    assert charges(shop) == [(order_id, 1990)]
    with worker(shop):
        wait_until(ended(shop, order_id), what="the payment")
        wait_until(lambda: shop.gateway.asked_again, what="the second run")
    assert charges(shop) == [(order_id, 1990)]
    assert shop.poll_ends() == [("trade-1", "on_final")]


def test_a_gateway_that_charges_and_says_nothing_is_asked_with_the_same_key(shop: Shop, order_id: int) -> None:
    shop.gateway.silent = True
    with worker(shop):
        wait_until(lambda: charges(shop), what="the charge")
        shop.gateway.silent = False
        wait_until(ended(shop, order_id), what="the payment")
    assert charges(shop) == [(order_id, 1990)]
    assert shop.gateway.asked_again >= 1


def test_a_clerk_who_charges_again_charges_nothing(shop: Shop, order_id: int) -> None:
    app = shop.module("jobs").app
    with TestClient(shop.module("web").web) as client, worker(shop):
        wait_until(ended(shop, order_id), what="the payment")
        job_id = client.post(f"/orders/{order_id}/charge").json()["job_id"]
        wait_until(lambda: app.jobs.get(job_id).reason == "done before", what="the second job's end")
    assert charges(shop) == [(order_id, 1990)]
    assert shop.gateway.asked_again == 0


def notify(client: TestClient, order_id: int, status: str, secret: str) -> int:
    """As the gateway does."""
    body, now = json.dumps({"order_id": order_id, "status": status}).encode(), int(time.time())
    headers = {"webhook-id": "trade-1", "webhook-timestamp": str(now)}
    headers["webhook-signature"] = sign(secret, "trade-1", now, body)
    return client.post("/payments/notifications", content=body, headers=headers).status_code


def test_the_gateways_webhook_ends_the_poll_without_a_query(shop: Shop, order_id: int) -> None:
    with TestClient(shop.module("web").web) as client:
        assert notify(client, order_id, "CLOSED", shop.gateway.secret) == 204
        assert notify(client, order_id, "PAID", shop.gateway.secret) == 204  # the first one counts
        with worker(shop):
            wait_until(ended(shop, order_id), what="the poll's end")
    assert shop.payment(order_id) == "CLOSED"
    assert [charge.queries for charge in shop.gateway.charges] == [0]
    assert shop.poll_ends() == [("trade-1", "on_final")]
    assert [webhook.payment for webhook in shop.merchant.webhooks] == ["CLOSED"]


def test_nobody_but_the_gateway_says_that_an_order_is_paid(shop: Shop, order_id: int) -> None:
    with TestClient(shop.module("web").web) as client:
        assert notify(client, order_id, "PAID", new_secret()) == 401
    assert shop.payment(order_id) == "PENDING"


def test_a_merchant_who_answers_410_is_told_of_no_other_order(shop: Shop, order_id: int) -> None:
    shop.merchant.leaving.add("teapot")
    jobs: Any = shop.module("jobs").app.jobs
    with worker(shop):
        wait_until(lambda: not shop.merchant_listens("teapot"), what="the note that the merchant has left")
        second = shop.order("click-2")
        wait_until(lambda: (job := jobs.get(f"order-{second}")) and job.state == "cancelled", what="the second webhook")
    assert shop.merchant.refused == [f"order-{order_id}"]
    assert shop.merchant.webhooks == []
