"""The shop's pages, and what becomes of orders in the hands of a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

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
    working = shop.module("jobs").app.worker(concurrency=4, grace=5)
    thread = threading.Thread(target=lambda: asyncio.run(working.run()))
    thread.start()
    try:
        yield
    finally:
        working.stop()
        thread.join(20)
    assert not thread.is_alive()


def buy(client: TestClient, **changes: object) -> httpx2.Response:
    order = {"customer_email": "a@mail.example", "sku": "teapot", "quantity": 1, "client_reference": "click-1"}
    return client.post("/orders", json=order | changes)


def waiting(shop: Shop) -> set[str]:
    """The ids of the jobs that wait."""
    jobs: Any = shop.module("jobs")
    return {job.id for job in jobs.app.jobs.list("ready").jobs}


def test_an_order_is_answered_at_once_and_its_jobs_wait(shop: Shop, client: TestClient) -> None:
    answer = buy(client)
    order_id = answer.json()["order_id"]
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/orders/{order_id}"
    assert answer.json()["status"] == "pending"
    assert waiting(shop) == {f"mail:{order_id}", f"webhook:{order_id}"}


def test_a_double_click_gets_the_same_order_and_makes_no_second_job(shop: Shop, client: TestClient) -> None:
    first, second = buy(client), buy(client)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert len(waiting(shop)) == 2
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
    assert waiting(shop) == set()


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


def test_an_order_without_jobs_is_found_and_only_once(shop: Shop) -> None:  # B117
    shop.stock("teapot", 5)
    order_id = shop.order().order_id  # committed, and then the web server died
    jobs = shop.module("jobs")
    assert jobs.reconcile() == 0  # it may be about to enqueue them this very moment
    shop.placed_ago(order_id, timedelta(hours=1))
    assert jobs.reconcile() == 2
    assert jobs.reconcile() == 0
    assert waiting(shop) == {f"mail:{order_id}", f"webhook:{order_id}"}


def test_an_order_the_world_was_told_of_is_left_alone(shop: Shop) -> None:
    shop.stock("teapot", 5)
    order_id = shop.order().order_id
    shop.placed_ago(order_id, timedelta(hours=1))
    jobs = shop.module("jobs")
    jobs.send_confirmation(order_id)
    assert jobs.reconcile() == 2  # the webhook is owed, and the mail's job does no harm
    with worker(shop):
        wait_until(lambda: not waiting(shop) and shop.merchant.webhooks, what="both jobs")
    assert jobs.reconcile() == 0
    assert sorted(shop.received()) == [f"confirmation_email-{order_id}", f"merchant_webhook-{order_id}"]


def test_the_web_server_sweeps_when_it_starts(shop: Shop) -> None:  # B117
    shop.stock("teapot", 5)
    order_id = shop.order().order_id
    shop.placed_ago(order_id, timedelta(hours=1))
    with TestClient(shop.module("web").web):
        wait_until(lambda: len(waiting(shop)) == 2, what="the sweep")
    assert waiting(shop) == {f"mail:{order_id}", f"webhook:{order_id}"}
