"""Placing orders: stock, double clicks, and who gets the last unit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.checkout.conftest import Shop


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
    placed = shop.order(quantity=2)
    assert placed.new
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
    served = [answer.order_id for answer in answers if not isinstance(answer, Exception)]
    assert len(set(served)) == len(served) == 7
    assert shop.left("teapot") == 0


def test_a_double_click_is_one_order(shop: Shop) -> None:
    shop.stock("teapot", 1)
    answers = together(shop.order, shop.order, shop.order)
    assert len({answer.order_id for answer in answers}) == 1
    assert sorted(answer.new for answer in answers) == [False, False, True]
    assert shop.left("teapot") == 0


def test_one_reference_for_two_purchases_is_refused(shop: Shop) -> None:
    shop.stock("teapot", 5)
    shop.stock("kettle", 5)
    shop.order("click-1", "teapot")
    with pytest.raises(Exception, match="click-1") as refused:
        shop.order("click-1", "kettle")
    assert type(refused.value).__name__ == "ReferenceTaken"
    assert (shop.left("teapot"), shop.left("kettle")) == (4, 5)


def test_an_error_leaves_order_and_stock_as_they_were(shop: Shop) -> None:
    shop.stock("teapot", 3)
    with pytest.raises(Exception, match="3 of teapot left, 4 asked for"):
        shop.order(quantity=4)
    assert shop.left("teapot") == 3
    assert shop.order().new  # the reference of the refused click is free


def test_an_unknown_item_is_refused(shop: Shop) -> None:
    shop.stock("teapot", 3)
    with pytest.raises(Exception, match="samovar") as refused:
        shop.order(sku="samovar")
    assert type(refused.value).__name__ == "UnknownItem"


@pytest.mark.parametrize("point", ["order.after_commit"])
def test_a_drill_kills_one_process_and_only_there(shop: Shop, point: str) -> None:
    (shop.drills / point).touch()
    assert shop.in_another_process(f"drills.reach({point!r})") == -9
    assert shop.in_another_process(f"drills.reach({point!r})") == 0
