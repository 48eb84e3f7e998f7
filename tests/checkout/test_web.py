"""The shop's pages, and what becomes of orders in the hands of a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.checkout.conftest import BUY_ELSEWHERE, KILLED, Shop, buy, worker
from tests.waiting import wait_until


@pytest.fixture
def client(shop: Shop) -> Iterator[TestClient]:
    shop.stock("teapot", 5)
    with TestClient(shop.module("web").web) as client:
        yield client


async def carry_out(shop: Shop) -> None:
    """Make jobs of all events."""
    async with shop.module("jobs").app as app:
        await app.relay(once=True).run()


def test_an_order_is_answered_at_once_and_its_jobs_wait(shop: Shop, client: TestClient) -> None:
    answer = buy(client)
    order_id = answer.json()["order_id"]
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/orders/{order_id}"
    assert answer.json()["status"] == "pending"
    assert shop.waiting() == {f"mail:{order_id}", f"charge:{order_id}"}
    assert shop.events() == 1


def test_a_second_click_gets_the_first_answer_and_makes_nothing(shop: Shop, client: TestClient) -> None:
    first, second = buy(client), buy(client)
    assert (first.status_code, second.status_code) == (201, 201)
    assert (first.content, first.headers["location"]) == (second.content, second.headers["location"])
    assert ("Idempotent-Replayed" in first.headers, "Idempotent-Replayed" in second.headers) == (False, True)
    assert len(shop.waiting()) == 2
    assert (shop.orders(), shop.left("teapot"), shop.events()) == (1, 4, 1)


def test_the_answer_is_stored_by_the_transaction_of_the_order(shop: Shop, client: TestClient) -> None:
    """A server that dies between the commit and its answer leaves both behind."""
    (shop.drills / "order.after_commit").touch()
    assert shop.in_another_process(BUY_ELSEWHERE) == KILLED
    assert shop.orders() == 1
    again = buy(client)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")
    assert again.json()["order_id"] == 1
    assert (shop.orders(), shop.left("teapot")) == (1, 4)


def test_an_order_that_was_rolled_back_may_be_placed_again_under_its_key(shop: Shop, client: TestClient) -> None:
    assert buy(client, quantity=6).status_code == 409
    shop.add("teapot", 1)
    assert buy(client, quantity=6).status_code == 201
    assert shop.left("teapot") == 0


def test_an_order_without_a_key_is_refused(shop: Shop, client: TestClient) -> None:
    order = {"customer_email": "a@mail.example", "sku": "teapot", "quantity": 1}
    assert client.post("/orders", json=order).status_code == 400
    assert shop.orders() == 0


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
    ],
)
def test_a_bad_order_is_refused(client: TestClient, shop: Shop, changes: dict[str, object], status: int) -> None:
    assert buy(client, **changes).status_code == status
    assert shop.left("teapot") == 5


def test_one_key_for_two_purchases_is_a_422(shop: Shop, client: TestClient) -> None:
    buy(client)
    answer = buy(client, quantity=2)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:headrace:idempotency-key:other-request"
    assert shop.orders() == 1


def test_no_such_order_is_a_404(client: TestClient) -> None:
    answer = client.get("/orders/4711")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_order_is_confirmed_once_its_mail_is_out(shop: Shop, client: TestClient) -> None:
    order_id = buy(client).json()["order_id"]
    with worker(shop):
        wait_until(lambda: client.get(f"/orders/{order_id}").json()["status"] == "confirmed", what="the confirmation")
        wait_until(lambda: shop.merchant.webhooks, what="the webhook")
    assert sorted(shop.received()) == [f"confirmation_email-{order_id}", f"order-{order_id}"]


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


def test_an_event_is_invoiced_and_counted_once(shop: Shop, client: TestClient) -> None:
    order_id = buy(client, quantity=2).json()["order_id"]
    asyncio.run(carry_out(shop))
    assert shop.events() == 0
    with worker(shop):
        wait_until(lambda: shop.sold("teapot") and shop.invoices(), what="both subscribers")
        wait_until(lambda: not shop.waiting(), what="every job")
    assert shop.invoices() == [(order_id, 2 * 1990)]
    assert shop.sold("teapot") == 2
