"""The servers of the world behave, and misbehave, as they are told."""

from __future__ import annotations

import smtplib
import socket

import httpx2
import pytest

from examples.checkout.world.listener import free_port
from examples.checkout.world.mail import MailServer
from examples.checkout.world.merchant import MerchantServer

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


def test_going_down_cuts_a_conversation(mail: MailServer) -> None:
    with socket.create_connection(("127.0.0.1", mail.port), timeout=5) as client:
        assert client.recv(100).startswith(b"220")
        mail.down()
        assert client.recv(100) == b""


def test_a_webhook_is_remembered_unless_the_merchant_fails(merchant: MerchantServer) -> None:
    def post(id: str) -> int:
        return httpx2.post(merchant.url, json={"order_id": 7}, headers={"webhook-id": id}, trust_env=False).status_code

    assert post("one") == 204
    merchant.failing = True
    assert post("two") == 503
    assert [(webhook.id, webhook.order_id) for webhook in merchant.webhooks] == [("one", 7)]


def test_ports_are_below_those_of_outgoing_connections_and_never_handed_out_twice() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(20_000 <= port < 32_000 for port in ports)
