"""When to ask, and when to tell. The demo has no days to wait, and divides all of it by one number."""

from __future__ import annotations

from datetime import timedelta

from headrace import Listed

from .settings import settings


def minutes(*delays: int) -> Listed:
    """One delay after the other; the last one repeats."""
    return Listed([timedelta(minutes=delay) / settings().hurry for delay in delays])


# A bank transfer may take half a day. Then the order is not paid, whatever comes later.
PAYMENT_QUERIES = minutes(10, 10, 10, 30)
PAYMENT_TIMEOUT = timedelta(hours=12) / settings().hurry

# As Alipay tells its merchants: at once, and seven times more. "alipay" is what to write where nothing is divided.
WEBHOOKS = minutes(4, 10, 10, 60, 120, 360, 900)
WEBHOOK_TRIES = 8
