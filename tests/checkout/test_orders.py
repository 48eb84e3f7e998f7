"""Placing orders: stock, who gets the last unit; and that jobs and event come and go with the order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.checkout.conftest import Shop
from tests.waiting import wait_until

KILLED = -9


def together(*calls: Callable[[], object]) -> list[object]:
    """Call all at the same moment, each in its thread; an exception counts as an answer."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        running = [threads.submit(run, call) for call in calls]
    return [each.exception() or each.result() for each in running]


def test_an_order_takes_its_units_off_the_stock(shop: Shop) -> None:
    shop.stock("teapot", 5)
    shop.order(quantity=2)
    assert shop.left("teapot") == 3


def test_two_buyers_of_the_last_unit(shop: Shop) -> None:
    shop.stock("teapot", 1)
    answers = together(*(lambda n=n: shop.order(f"click-{n}") for n in range(2)))
    refused = [answer for answer in answers if isinstance(answer, Exception)]
    assert [type(error).__name__ for error in refused] == ["OutOfStock"]
    assert shop.left("teapot") == 0


def test_twenty_buyers_of_seven_units(shop: Shop) -> None:
    shop.stock("teapot", 7)
    answers = together(*(lambda n=n: shop.order(f"click-{n}") for n in range(20)))
    served = [answer for answer in answers if not isinstance(answer, Exception)]
    assert len(set(served)) == len(served) == 7
    assert shop.left("teapot") == 0


def test_an_error_leaves_order_and_stock_as_they_were(shop: Shop) -> None:
    shop.stock("teapot", 3)
    with pytest.raises(Exception, match="3 of teapot left, 4 asked for"):
        shop.order(quantity=4)
    assert shop.left("teapot") == 3
    shop.order()
    assert shop.left("teapot") == 2


def test_an_unknown_item_is_refused(shop: Shop) -> None:
    shop.stock("teapot", 3)
    with pytest.raises(Exception, match="samovar") as refused:
        shop.order(sku="samovar")
    assert type(refused.value).__name__ == "UnknownItem"


def test_an_order_brings_its_jobs_and_its_event(shop: Shop) -> None:
    shop.stock("teapot", 5)
    order_id = shop.order()
    assert shop.waiting() == {f"mail:{order_id}", f"charge:{order_id}"}
    assert shop.events() == 1


def test_a_refused_order_leaves_no_job_and_no_event(shop: Shop) -> None:
    shop.stock("teapot", 1)
    with pytest.raises(Exception, match="1 of teapot left"):
        shop.order(quantity=2)
    assert (shop.waiting(), shop.events()) == (set(), 0)


@pytest.mark.parametrize("point", ["order.between_statements", "order.before_commit"])
def test_killed_before_the_commit_nothing_is_there(shop: Shop, point: str) -> None:  # B117
    shop.stock("teapot", 5)
    (shop.drills / point).touch()
    assert shop.order_in_another_process() == KILLED
    assert (shop.orders(), shop.left("teapot"), shop.waiting(), shop.events()) == (0, 5, set(), 0)

    shop.order()  # whoever got no answer tries again
    assert (shop.orders(), shop.left("teapot"), len(shop.waiting()), shop.events()) == (1, 4, 2, 1)


def test_killed_after_the_commit_all_of_it_is_there(shop: Shop) -> None:  # B117
    shop.stock("teapot", 5)
    (shop.drills / "order.after_commit").touch()
    assert shop.order_in_another_process() == KILLED
    assert (shop.orders(), shop.left("teapot"), len(shop.waiting()), shop.events()) == (1, 4, 2, 1)


@pytest.mark.timeout(240)
def test_killed_anywhere_there_are_as_many_orders_as_jobs_and_events(shop: Shop) -> None:  # B117
    shop.stock("teapot", 100_000)
    for victim in range(3):
        before = shop.orders()
        with shop.ordering_in_another_process(f"victim-{victim}") as process:
            wait_until(lambda before=before: shop.orders() > before + random.randrange(20), 60, "some orders")
            process.kill()
    orders = shop.orders()
    assert shop.left("teapot") == 100_000 - orders
    assert shop.queued() == {"mail": orders, "payments": orders}
    assert shop.events() == orders


def test_a_drill_kills_one_process_and_only_there(shop: Shop) -> None:
    (shop.drills / "order.after_commit").touch()
    assert shop.in_another_process("drills.reach('order.after_commit')") == KILLED
    assert shop.in_another_process("drills.reach('order.after_commit')") == 0
