"""Orders in a database, keys in Redis: the answer cannot commit with the order, so the order knows its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.checkout.conftest import BUY_ELSEWHERE, KILLED, Shop, buy
from tests.waiting import wait_until


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def elsewhere(redis_url: str, unique_name: str) -> dict[str, str]:
    return {"CHECKOUT_STORE_URL": redis_url, "CHECKOUT_STORE_NAME": unique_name}


def test_a_server_killed_between_order_and_answer_leaves_one_order(shop: Shop) -> None:
    shop.stock("teapot", 1)
    (shop.drills / "order.after_commit").touch()
    assert shop.in_another_process(BUY_ELSEWHERE) == KILLED
    assert shop.orders() == 1
    with TestClient(shop.module("web").web) as client:
        assert buy(client).json()["type"] == "urn:headrace:idempotency-key:in-progress"  # the dead one holds the key
        wait_until(lambda: buy(client).status_code == 201, what="the end of the lease")
        again = buy(client)
    assert (again.headers["Idempotent-Replayed"], again.json()["order_id"]) == ("true", 1)
    assert (shop.orders(), shop.left("teapot")) == (1, 0)
