"""The shop on Flask, served by werkzeug, with `flask headrace work` and relays beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contrib.serving import PATIENCE, PLACES, Shop, Web, shops
from tests.waiting import wait_until

FLASK = ("-m", "flask", "--app", "tests.contrib.flask.shop:create_app")
WERKZEUG = (*FLASK, "run", "--port", "{port}")


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def shop(request: pytest.FixtureRequest, unique_name: str, tmp_path: Path) -> Iterator[Shop]:
    yield from shops(request, unique_name, tmp_path)


@pytest.fixture
def web(shop: Shop) -> Web:
    return shop.web(*WERKZEUG)


def work(shop: Shop) -> None:
    shop.process(*FLASK, "headrace", "work", ready=" started on ")
    if shop.settings.outbox is not None:
        shop.process(*FLASK, "headrace", "outbox", "relay", ready=" started on ")


@pytest.mark.parametrize("shop", PLACES, indirect=True)
def test_a_job_runs_once_its_order_is_committed(shop: Shop, web: Web) -> None:
    work(shop)
    assert [web.order(1), web.order(2)] == [201, 201]
    assert shop.orders() == [1, 2]
    shop.wait_for_mails([1, 2])
    wait_until(lambda: web.get("/waiting").text == "0", PATIENCE, "an empty queue")


def test_an_exception_after_the_enqueue_leaves_no_job(shop: Shop, web: Web) -> None:
    assert web.order(1, "fail") == 500
    assert web.order(2, "refuse") == 409
    assert (shop.orders(), shop.waiting()) == ([], 0)
    assert web.order(1) == 201  # the unique key is free
    work(shop)
    shop.wait_for_mails([1])
    assert shop.orders() == [1]


def test_a_kill_before_the_commit_leaves_no_job(shop: Shop, web: Web) -> None:
    web.order_and_kill(1, shop.held)
    again = shop.web(*WERKZEUG)
    # the server may take a moment to notice; until then the order and its key are not free
    wait_until(lambda: again.order(1) == 201, PATIENCE, "the order to be placed")
    assert shop.orders() == [1]
    assert shop.waiting() == 1
    work(shop)
    shop.wait_for_mails([1])
