"""The shop on FastAPI, served by uvicorn, with workers and relays beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contrib.serving import PATIENCE, PLACES, Shop, Web, shops
from tests.waiting import wait_until

SPEC = "tests.contrib.fastapi.shop:jobs"
UVICORN = ("-m", "uvicorn", "tests.contrib.fastapi.shop:web", "--port", "{port}", "--log-level", "warning")


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def shop(request: pytest.FixtureRequest, unique_name: str, tmp_path: Path) -> Iterator[Shop]:
    yield from shops(request, unique_name, tmp_path)


@pytest.fixture
def web(shop: Shop) -> Web:
    return shop.web(*UVICORN)


def work(shop: Shop) -> None:
    shop.process("-m", "headrace.cli", "work", "--app", SPEC, ready=" started on ")
    shop.relay(SPEC)


@pytest.mark.parametrize("shop", PLACES, indirect=True)
def test_a_job_runs_once_its_order_is_committed(shop: Shop, web: Web) -> None:
    work(shop)
    assert web.order(1) == 201
    assert web.order(2, path="/plain/orders") == 201
    assert shop.orders() == [1, 2]
    shop.wait_for_mails([1, 2])
    wait_until(lambda: web.get("/waiting").json() == 0, PATIENCE, "an empty queue")


def test_an_exception_after_the_enqueue_leaves_no_job(shop: Shop, web: Web) -> None:
    for path in ("/orders", "/plain/orders"):
        assert web.order(1, "fail", path) == 500
        assert web.order(2, "refuse", path) == 409
    assert (shop.orders(), shop.waiting()) == ([], 0)
    assert web.order(1) == 201  # the unique keys are free
    assert web.order(2, path="/plain/orders") == 201
    work(shop)
    shop.wait_for_mails([1, 2])
    assert shop.orders() == [1, 2]


def test_a_kill_before_the_commit_leaves_no_job(shop: Shop, web: Web) -> None:
    web.order_and_kill(1, shop.held)
    again = shop.web(*UVICORN)
    # the server may take a moment to notice; until then the order and its key are not free
    wait_until(lambda: again.order(1) == 201, PATIENCE, "the order to be placed")
    assert shop.orders() == [1]
    assert shop.waiting() == 1
    work(shop)
    shop.wait_for_mails([1])
