"""Mails and webhooks: once each, whoever dies in between. The processes here are real, and so is SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.checkout.audit import repeats
from tests.checkout.conftest import Shop

KILLED = -9
MAIL, WEBHOOK = "confirmation_email", "merchant_webhook"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One will do: what is told here is how the steps follow one another."""
    return f"sqlite:///{tmp_path}/shop.db"


@pytest.fixture
def order_id(shop: Shop) -> int:
    shop.stock("teapot", 5)
    return shop.order().order_id


def test_the_mail_job_run_twice_sends_one_mail(shop: Shop, order_id: int) -> None:
    jobs = shop.module("jobs")
    jobs.send_confirmation(order_id)
    jobs.send_confirmation(order_id)
    assert [(mail.message_id, mail.recipient) for mail in shop.mail.mails] == [
        (f"{MAIL}-{order_id}@shop.example", "a@mail.example")
    ]
    assert shop.notifications(order_id) == {MAIL: True}
    assert shop.confirmed(order_id)


def test_the_webhook_job_run_twice_sends_one_webhook_and_keeps_one_row(shop: Shop, order_id: int) -> None:
    jobs = shop.module("jobs")
    jobs.notify_merchant(order_id)
    jobs.notify_merchant(order_id)
    assert [(webhook.id, webhook.order_id) for webhook in shop.merchant.webhooks] == [
        (f"{WEBHOOK}-{order_id}", order_id)
    ]
    assert shop.notifications(order_id) == {WEBHOOK: True}
    assert not shop.confirmed(order_id)


@pytest.mark.parametrize(("type_", "job"), [(MAIL, "send_confirmation"), (WEBHOOK, "notify_merchant")])
def test_killed_between_insert_and_send_it_still_sends(shop: Shop, order_id: int, type_: str, job: str) -> None:
    (shop.drills / f"{type_}.after_insert").touch()
    assert shop.in_another_process(f"jobs.{job}({order_id})") == KILLED
    assert shop.received() == []
    assert shop.notifications(order_id) == {type_: False}

    assert shop.in_another_process(f"jobs.{job}({order_id})") == 0
    assert len(shop.received()) == 1
    assert shop.notifications(order_id) == {type_: True}


@pytest.mark.parametrize(("type_", "job"), [(MAIL, "send_confirmation"), (WEBHOOK, "notify_merchant")])
def test_killed_after_sending_it_sends_once_more_under_the_same_id(
    shop: Shop, order_id: int, type_: str, job: str
) -> None:
    (shop.drills / f"{type_}.after_send").touch()
    assert shop.in_another_process(f"jobs.{job}({order_id})") == KILLED
    assert shop.notifications(order_id) == {type_: False}

    assert shop.in_another_process(f"jobs.{job}({order_id})") == 0
    assert shop.in_another_process(f"jobs.{job}({order_id})") == 0
    assert len(shop.received()) == 2
    assert repeats(shop.received()) == 1
    assert shop.notifications(order_id) == {type_: True}


def test_an_outage_is_an_error_and_leaves_the_row_unsent(shop: Shop, order_id: int) -> None:
    shop.mail.down()
    with pytest.raises(OSError, match="refused"):
        shop.module("jobs").send_confirmation(order_id)
    assert shop.notifications(order_id) == {MAIL: False}
    shop.mail.up()
    shop.module("jobs").send_confirmation(order_id)
    assert len(shop.mail.mails) == 1


def test_a_merchant_that_answers_503_is_told_again(shop: Shop, order_id: int) -> None:
    shop.merchant.failing = True
    with pytest.raises(Exception, match="503"):
        shop.module("jobs").notify_merchant(order_id)
    assert shop.notifications(order_id) == {WEBHOOK: False}
    shop.merchant.failing = False
    shop.module("jobs").notify_merchant(order_id)
    assert len(shop.merchant.webhooks) == 1


def test_a_job_for_no_order_says_so(shop: Shop, order_id: int) -> None:
    with pytest.raises(Exception, match="there is no order 4711"):
        shop.module("jobs").send_confirmation(4711)
    assert shop.received() == []
