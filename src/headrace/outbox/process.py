"""Runs one relay as this process: an event loop and signals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.outbox.relay import Relay
from headrace.worker.process import Close, closed, on_signals


def run_relay(make: Callable[[], Relay], close: Close) -> None:
    """Run the relay that `make` builds inside the loop until SIGTERM or SIGINT, and `close` its app.

    The batch in hand is finished.
    """
    asyncio.run(_serve(make, close))


async def _serve(make: Callable[[], Relay], close: Close) -> None:
    relay = make()
    on_signals(relay.stop)
    await relay.run()
    await closed(close)
