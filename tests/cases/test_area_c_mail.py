"""The textbook exercise: a mail job that is dispatched twice sends one mail, by real SMTP, on every store."""

import smtplib
from collections.abc import Iterator
from email.message import EmailMessage

import pytest

from examples.checkout.world.mail import MailServer
from headrace import Headrace, current_job
from tests.cases.running import ended, working


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.up()
    yield server
    server.down()


async def test_a_mail_that_is_dispatched_twice_is_sent_once(app: Headrace, mail_server: MailServer) -> None:
    @app.task(once="confirmation-{order_id}")
    def send_confirmation(order_id: int) -> None:
        mail = EmailMessage()
        mail["Message-ID"], mail["To"] = f"<{current_job().once_key}@shop.example>", "customer@example.com"
        mail.set_content(f"Thank you for order {order_id}.")
        with smtplib.SMTP("127.0.0.1", mail_server.port) as client:
            client.send_message(mail, "shop@example.com")

    async with working(app, concurrency=4):
        first = [await send_confirmation.aenqueue(order_id=17) for _ in range(2)]
        for job in first:
            assert await ended(app, job.id) is None
        later = await send_confirmation.aenqueue(order_id=17)
        assert await ended(app, later.id) is None
    assert [mail.message_id for mail in mail_server.mails] == ["confirmation-17@shop.example"]
