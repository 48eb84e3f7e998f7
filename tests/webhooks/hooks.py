"""Webhooks for tests: to loopback, quickly."""

from collections.abc import Callable
from typing import Any

from headrace import Headrace
from headrace.webhooks import Delivery, Webhooks, new_secret

SECRET = new_secret()
QUICKLY = {"schedule": "10ms x50, 1h", "give_up_after": "10h"}


def webhooks(app: Headrace, **options: Any) -> Webhooks:
    return Webhooks(app, **{"secret": SECRET, "allow": "127.0.0.1", **QUICKLY, **options})


def collecting(hook: Callable[[Callable[[Delivery], None]], Any]) -> list[Delivery]:
    """What a hook is handed."""
    found: list[Delivery] = []
    hook(found.append)
    return found
