"""Mails: once each, whoever dies in between. The processes here are real, and so is SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.checkout.audit import repeats
from tests.checkout.conftest import Shop

KILLED = -9
MAIL = "confirmation_email"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One will do: what is told here is how the steps follow one another."""
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def order_id(shop: Shop) -> int:
    shop.stock("teapot", 5)
    return shop.order()


def test_the_mail_job_run_twice_sends_one_mail(shop: Shop, order_id: int) -> None:
    jobs = shop.module("jobs")
    jobs.send_confirmation(order_id)
    jobs.send_confirmation(order_id)
    assert [(mail.message_id, mail.recipient) for mail in shop.mail.mails] == [
        (f"{MAIL}-{order_id}@shop.example", "a@mail.example")
    ]
    assert shop.notifications(order_id) == {MAIL: True}
    assert shop.confirmed(order_id)


def test_killed_between_insert_and_send_it_still_sends(shop: Shop, order_id: int) -> None:
    (shop.drills / f"{MAIL}.after_insert").touch()
    assert shop.in_another_process(f"jobs.send_confirmation({order_id})") == KILLED
    assert shop.received() == []
    assert shop.notifications(order_id) == {MAIL: False}

    assert shop.in_another_process(f"jobs.send_confirmation({order_id})") == 0
    assert len(shop.received()) == 1
    assert shop.notifications(order_id) == {MAIL: True}


def test_killed_after_sending_it_sends_once_more_under_the_same_id(shop: Shop, order_id: int) -> None:
    (shop.drills / f"{MAIL}.after_send").touch()
    assert shop.in_another_process(f"jobs.send_confirmation({order_id})") == KILLED
    assert shop.notifications(order_id) == {MAIL: False}

    assert shop.in_another_process(f"jobs.send_confirmation({order_id})") == 0
    assert shop.in_another_process(f"jobs.send_confirmation({order_id})") == 0
    assert len(shop.received()) == 2
    assert repeats(shop.received()) == 1
    assert shop.notifications(order_id) == {MAIL: True}


def test_an_outage_is_an_error_and_leaves_the_row_unsent(shop: Shop, order_id: int) -> None:
    shop.mail.down()
    with pytest.raises(OSError, match="refused"):
        shop.module("jobs").send_confirmation(order_id)
    assert shop.notifications(order_id) == {MAIL: False}
    shop.mail.up()
    shop.module("jobs").send_confirmation(order_id)
    assert len(shop.mail.mails) == 1


def test_a_job_for_no_order_says_so(shop: Shop, order_id: int) -> None:
    with pytest.raises(Exception, match="there is no order 4711"):
        shop.module("jobs").send_confirmation(4711)
    assert shop.received() == []
