"""The shop's pages, and what becomes of orders in the hands of a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from fastapi.testclient import TestClient

from tests.checkout.conftest import Shop
from tests.waiting import wait_until


@pytest.fixture
def client(shop: Shop) -> Iterator[TestClient]:
    shop.stock("teapot", 5)
    with TestClient(shop.module("web").web) as client:
        yield client


@contextmanager
def worker(shop: Shop) -> Iterator[None]:
    """A worker in a thread of its own, until the block ends."""
    app = shop.module("jobs").app
    working = app.worker(concurrency=4, grace=5)

    async def work() -> None:
        async with app:  # closes what this loop has opened
            await working.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield
    finally:
        working.stop()
        thread.join(20)
    assert not thread.is_alive()


async def carry_out(shop: Shop) -> None:
    """Make jobs of all events."""
    async with shop.module("jobs").app as app:
        await app.relay(once=True).run()


def buy(client: TestClient, **changes: object) -> httpx2.Response:
    order = {"customer_email": "a@mail.example", "sku": "teapot", "quantity": 1, "client_reference": "click-1"}
    return client.post("/orders", json=order | changes)


def test_an_order_is_answered_at_once_and_its_jobs_wait(shop: Shop, client: TestClient) -> None:
    answer = buy(client)
    order_id = answer.json()["order_id"]
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/orders/{order_id}"
    assert answer.json()["status"] == "pending"
    assert shop.waiting() == {f"mail:{order_id}", f"webhook:{order_id}"}
    assert shop.events() == 1


def test_a_double_click_gets_the_same_order_and_makes_no_second_job(shop: Shop, client: TestClient) -> None:
    first, second = buy(client), buy(client)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert len(shop.waiting()) == 2
    assert shop.left("teapot") == 4


def test_out_of_stock_is_a_clear_409(shop: Shop, client: TestClient) -> None:
    answer = buy(client, quantity=6)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Out of stock",
        "status": 409,
        "detail": "5 of teapot left, 6 asked for",
    }
    assert shop.waiting() == set()


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"sku": "samovar"}, 404),
        ({"quantity": 0}, 422),
        ({"quantity": "many"}, 422),
        ({"customer_email": "a@mail.example\nBcc: everyone@mail.example"}, 422),
        ({"client_reference": ""}, 422),
    ],
)
def test_a_bad_order_is_refused(client: TestClient, shop: Shop, changes: dict[str, object], status: int) -> None:
    assert buy(client, **changes).status_code == status
    assert shop.left("teapot") == 5


def test_one_reference_for_two_purchases_is_a_422_that_says_why(client: TestClient) -> None:
    buy(client)
    answer = buy(client, quantity=2)
    assert answer.status_code == 422
    assert answer.json()["title"] == "Client reference was used for a different order"


def test_no_such_order_is_a_404(client: TestClient) -> None:
    answer = client.get("/orders/4711")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_order_is_confirmed_once_its_mail_is_out(shop: Shop, client: TestClient) -> None:
    order_id = buy(client).json()["order_id"]
    with worker(shop):
        wait_until(lambda: client.get(f"/orders/{order_id}").json()["status"] == "confirmed", what="the confirmation")
        wait_until(lambda: shop.merchant.webhooks, what="the webhook")
    assert sorted(shop.received()) == [f"confirmation_email-{order_id}", f"merchant_webhook-{order_id}"]


def test_an_order_whose_mail_is_refused_for_good_is_shown_as_failed(shop: Shop, client: TestClient) -> None:
    shop.mail.refused.add("nobody@mail.example")
    order_id = buy(client, customer_email="nobody@mail.example").json()["order_id"]
    with worker(shop):
        wait_until(lambda: client.get(f"/orders/{order_id}").json()["status"] == "failed", what="the failure")
    job = shop.module("jobs").app.jobs.get(f"mail:{order_id}")
    assert job.state == "failed"
    assert shop.mail.mails == []


def test_mail_is_late_but_not_lost_when_the_mail_server_was_down(shop: Shop, client: TestClient) -> None:
    shop.mail.down()
    order_id = buy(client).json()["order_id"]
    with worker(shop):
        wait_until(lambda: shop.notifications(order_id).get("confirmation_email") is False, what="the first try")
        assert client.get(f"/orders/{order_id}").json()["status"] == "pending"
        shop.mail.up()
        wait_until(lambda: client.get(f"/orders/{order_id}").json()["status"] == "confirmed", what="the confirmation")
    assert len(shop.mail.mails) == 1


def test_an_event_is_booked_and_counted_once(shop: Shop, client: TestClient) -> None:
    order_id = buy(client, quantity=2).json()["order_id"]
    asyncio.run(carry_out(shop))
    assert shop.events() == 0
    with worker(shop):
        wait_until(lambda: shop.sold("teapot") and shop.payments(), what="both subscribers")
        wait_until(lambda: not shop.waiting(), what="every job")
    assert shop.payments() == [(order_id, 2 * 1990)]
    assert shop.sold("teapot") == 2
