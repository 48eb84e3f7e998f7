"""The shop on SQLAlchemy, with a web server and workers as processes of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contrib.serving import PATIENCE, Process, Shop, Web, shops
from tests.waiting import wait_until

SPEC = "tests.contrib.sqlalchemy.shop:jobs"
UVICORN = ("-m", "uvicorn", "tests.contrib.sqlalchemy.shop:web", "--port", "{port}", "--log-level", "warning")


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest, unique_name: str, tmp_path: Path) -> Iterator[Shop]:
    yield from shops(request, unique_name, tmp_path)


@pytest.fixture
def web(shop: Shop) -> Web:
    return shop.web(*UVICORN, "--lifespan", "off")


def work(shop: Shop) -> Process:
    return shop.process("-m", "headrace.cli", "work", "--app", SPEC, ready=" started on ")


def test_orders_have_one_mail_each_however_they_were_placed(shop: Shop, web: Web) -> None:
    work(shop)
    for number, (then, path) in enumerate(
        [("", "/orders"), ("later", "/orders"), ("", "/plain/orders"), ("later", "/plain/orders")], 1
    ):
        assert web.order(number, then, path) == 201
    shop.wait_for_mails([1, 2, 3, 4])
    wait_until(lambda: shop.waiting() == 0, PATIENCE, "an empty queue")
    assert shop.orders() == [1, 2, 3, 4]


@pytest.mark.parametrize("path", ["/orders", "/plain/orders"])
def test_an_order_that_is_refused_has_no_job(shop: Shop, web: Web, path: str) -> None:
    assert web.order(1, "refuse", path) == 409
    assert (shop.orders(), shop.waiting()) == ([], 0)
    assert web.order(1, "", path) == 201
    work(shop)
    shop.wait_for_mails([1])


def test_a_kill_before_the_commit_leaves_no_job(shop: Shop, web: Web) -> None:
    web.order_and_kill(1, shop.held)
    again = shop.web(*UVICORN, "--lifespan", "off")
    # the server may take a moment to notice; until then the order and its key are not free
    wait_until(lambda: again.order(1) == 201, PATIENCE, "the order to be placed")
    work(shop)
    shop.wait_for_mails([1])
    assert shop.orders() == [1]


def test_workers_that_are_killed_again_and_again_send_no_mail_twice(shop: Shop, web: Web) -> None:
    """Each handler's effect commits with the end of its job, so a mail is in the table once, whenever they die."""
    numbers = list(range(1, 31))
    for number in numbers:
        assert web.order(number, "later" if number % 2 else "", "/plain/orders" if number % 3 else "/orders") == 201
    for least in (1, 10):
        worker = work(shop)
        wait_until(lambda least=least: len(shop.mails()) >= least, PATIENCE, f"{least} mails")
        worker.kill()
    work(shop)
    shop.wait_for_mails(numbers)
