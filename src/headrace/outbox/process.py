"""Runs one relay as this process: an event loop and signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from headrace.outbox.relay import Relay
from headrace.worker.process import SIGNALS


def run_relay(make: Callable[[], Relay]) -> Relay:
    """Run the relay that `make` builds inside the loop until SIGTERM or SIGINT: the batch in hand is finished."""
    return asyncio.run(_serve(make))


async def _serve(make: Callable[[], Relay]) -> Relay:
    relay = make()
    loop = asyncio.get_running_loop()
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup, and background jobs of scripts
            continue
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, relay.stop)
            continue
        # Windows has no add_signal_handler
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(relay.stop))
    await relay.run()
    return relay
