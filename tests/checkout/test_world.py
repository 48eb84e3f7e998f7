"""The servers of the world behave, and misbehave, as they are told."""

from __future__ import annotations

import json
import smtplib
import socket
import time

import httpx2
import pytest

from examples.checkout.world.gateway import Gateway
from examples.checkout.world.listener import free_port
from examples.checkout.world.mail import MailServer
from examples.checkout.world.merchant import MerchantServer
from examples.checkout.world.pager import Pager
from headrace.webhooks import new_secret, sign

MESSAGE = "Message-ID: <greeting-1@shop.example>\r\nSubject: hello\r\n\r\nHow do you do?\r\n"


def send(port: int, recipient: str = "a@mail.example") -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=5) as client:
        client.sendmail("orders@shop.example", recipient, MESSAGE)


def test_a_mail_is_remembered(mail: MailServer) -> None:
    send(mail.port)
    assert [(each.message_id, each.recipient) for each in mail.mails] == [("greeting-1@shop.example", "a@mail.example")]


def test_a_refused_recipient_gets_nothing(mail: MailServer) -> None:
    mail.refused.add("nobody@mail.example")
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(mail.port, "nobody@mail.example")
    assert mail.mails == []


def test_a_server_that_is_down_refuses_and_comes_back_on_its_port(mail: MailServer) -> None:
    mail.down()
    with pytest.raises(ConnectionRefusedError):
        send(mail.port)
    mail.up()
    send(mail.port)
    assert len(mail.mails) == 1


def test_a_busy_server_takes_no_mail_and_counts_who_came(mail: MailServer) -> None:
    send(mail.port)
    mail.busy = True
    with pytest.raises(smtplib.SMTPConnectError, match="too busy"):
        send(mail.port)
    assert (len(mail.mails), len(mail.calls)) == (1, 2)


def test_the_pager_remembers_what_it_rang_for() -> None:
    pager = Pager()
    pager.up()
    alert = {"rule": "circuit-opened", "subject": "smtp", "state": "firing", "text": "it opened", "at": None}
    assert httpx2.post(pager.url, json=alert, trust_env=False).is_success
    pager.down()
    assert pager.rang_for("circuit-opened")
    assert not pager.rang_for("failed-growth")


def test_going_down_cuts_a_conversation(mail: MailServer) -> None:
    with socket.create_connection(("127.0.0.1", mail.port), timeout=5) as client:
        assert client.recv(100).startswith(b"220")
        mail.down()
        assert client.recv(100) == b""


def told(merchant: MerchantServer, id: str, sku: str = "teapot", secret: str = "") -> httpx2.Response:
    """Send it a webhook."""
    body, now = json.dumps({"data": {"order_id": 7, "payment": "PAID"}}).encode(), int(time.time())
    headers = {"webhook-id": id, "webhook-timestamp": str(now)}
    headers["webhook-signature"] = sign(secret or merchant.secret, id, now, body)
    return httpx2.post(f"{merchant.url}/{sku}", content=body, headers=headers, trust_env=False)


def test_a_webhook_is_remembered_unless_the_merchant_fails(merchant: MerchantServer) -> None:
    assert told(merchant, "one").text == "success"
    merchant.failing = True
    assert told(merchant, "two").status_code == 503
    assert [(webhook.id, webhook.order_id) for webhook in merchant.webhooks] == [("one", 7)]


def test_some_webhooks_are_taken_at_the_third_try_and_some_twice(merchant: MerchantServer) -> None:
    told(merchant, "at-once")
    assert [told(merchant, "third").text for _ in range(3)] == ["not now", "not now", "success"]
    for id in ("at-once-too", "busy", "at-once-three"):
        told(merchant, id)
    for id in ("hangs", "loses-its-answer"):
        with pytest.raises(httpx2.RemoteProtocolError):
            told(merchant, id)
        assert told(merchant, id).text == "success"
    ids = [webhook.id for webhook in merchant.webhooks]
    assert ids == ["at-once", "third", "at-once-too", "at-once-three", "hangs", "loses-its-answer", "loses-its-answer"]


def test_a_forged_webhook_is_not_taken_and_counted(merchant: MerchantServer) -> None:
    assert told(merchant, "one", secret=new_secret()).status_code == 401
    assert (merchant.webhooks, merchant.forged) == ([], 1)


def test_a_merchant_who_has_left_says_so(merchant: MerchantServer) -> None:
    merchant.leaving.add("kettle")
    assert told(merchant, "one", "kettle").status_code == 410
    assert told(merchant, "two").status_code == 200
    assert merchant.refused == ["one"]


def charge(gateway: Gateway, key: str, order_id: int = 7) -> str:
    answer = httpx2.post(
        f"{gateway.url}/charges",
        json={"order_id": order_id, "cents": 1990},
        headers={"Idempotency-Key": key},
        trust_env=False,
    )
    return str(answer.raise_for_status().json()["trade_no"])


def asked(gateway: Gateway, trade_no: str) -> str:
    return str(httpx2.get(f"{gateway.url}/charges/{trade_no}", trust_env=False).json()["status"])


def test_the_gateway_charges_once_for_each_key(gateway: Gateway) -> None:
    assert charge(gateway, "one") == charge(gateway, "one") != charge(gateway, "two")
    assert [one.order_id for one in gateway.charges] == [7, 7]
    assert gateway.asked_again == 1


def test_the_gateway_charges_though_it_does_not_answer_and_not_while_it_fails(gateway: Gateway) -> None:
    gateway.silent = True
    with pytest.raises(httpx2.RemoteProtocolError):
        charge(gateway, "one")
    gateway.silent, gateway.failing = False, True
    with pytest.raises(httpx2.HTTPStatusError, match="503"):
        charge(gateway, "two")
    assert len(gateway.charges) == 1


def test_a_charge_is_paid_at_the_third_query_or_closed_or_forgotten(gateway: Gateway) -> None:
    paid = charge(gateway, "paid")
    assert [asked(gateway, paid) for _ in range(4)] == ["PROCESSING", "PROCESSING", "PAID", "PAID"]
    gateway.forgetful = True
    forgotten = charge(gateway, "forgotten")
    assert {asked(gateway, forgotten) for _ in range(5)} == {"PROCESSING"}
    gateway.forgetful = False
    eighth = [charge(gateway, f"key-{number}") for number in range(6)][-1]
    assert [asked(gateway, eighth) for _ in range(3)][-1] == "CLOSED"


def test_ports_are_below_those_of_outgoing_connections_and_never_handed_out_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(20_000 <= port < 32_000 for port in ports)
