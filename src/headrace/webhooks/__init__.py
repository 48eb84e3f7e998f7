"""Webhooks: told to a receiver, signed, until it answers as agreed; and checked where they are received."""

from headrace.errors import AddressRefused, SignatureInvalid, WebhookError
from headrace.webhooks.client import Answer
from headrace.webhooks.guard import Guard
from headrace.webhooks.hooks import Delivery
from headrace.webhooks.sender import Webhooks
from headrace.webhooks.signature import new_secret, sign, verify

__all__ = [
    "AddressRefused",
    "Answer",
    "Delivery",
    "Guard",
    "SignatureInvalid",
    "WebhookError",
    "Webhooks",
    "new_secret",
    "sign",
    "verify",
]
