"""Mails, as they leave the shop."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage

from .models import Order
from .settings import settings


class AddressRefused(Exception):
    """The customer's mail server will never take mail for this address."""


def send(order: Order, message_id: str) -> None:
    """Mail the customer, over SMTP."""
    message = EmailMessage()
    message["Message-ID"] = f"<{message_id}@shop.example>"  # the same in every run: a mail reader shows it once
    message["From"] = "orders@shop.example"
    message["To"] = order.customer_email
    message["Subject"] = f"Your order {order.id}"
    message.set_content(f"Thank you! {order.quantity} x {order.sku} will be with you soon.")
    with smtplib.SMTP(settings().smtp_host, settings().smtp_port, timeout=5) as server:
        try:
            server.send_message(message)
        except smtplib.SMTPRecipientsRefused as refused:
            code, reason = refused.recipients[order.customer_email]
            if code >= 500:  # 4xx says: try again later
                raise AddressRefused(f"{order.customer_email}: {code} {reason!r}") from refused
            raise
