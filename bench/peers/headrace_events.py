"""Events for the outbox and its relay; loaded by peer_headrace where it is asked."""

import time
from typing import Any, NoReturn

import headrace_orders
import peerlib as lib

from headrace import Headrace

EVENT = "OrderCreated"
TOGETHER = 500  # events of one transaction, where many are to lie there
OUT_S = 60.0
# Microseconds from the statement that wrote an event to its mark as published, by the database's own clock.
LAGS = {
    "sqlite3": "select published_at - created_at from headrace_outbox order by seq",
    "psycopg": "select extract(epoch from published_at - created_at) * 1000000 from headrace_outbox order by seq",
    "pymysql": "select timestampdiff(microsecond, created_at, published_at) from headrace_outbox order by seq",
}


def write(app: Headrace, task: Any, count: str, aggregates: str, library: str) -> dict[str, float]:
    """`count` events of so many aggregates, in transactions of 500, for a relay that is started later."""
    shop = headrace_orders.PLAIN[library](app, task)
    shop.open()
    for begin in range(0, int(count), TOGETHER):
        shop.order(begin)
        for number in range(begin, min(begin + TOGETHER, int(count))):
            app.outbox.add(shop.connection, EVENT, aggregate=("Order", number % int(aggregates)), payload=number)
        shop.commit()
    shop.close()
    return {"n": int(count)}


def relay(app: Headrace, _task: Any) -> dict[str, Any]:
    """One relay until nothing is due; its connecting is part of the time."""

    async def carry() -> tuple[int, float]:
        one = app.relay(once=True)
        began = time.perf_counter()
        await one.run()
        spent = time.perf_counter() - began
        await app.aclose()
        return one.published, spent

    published, seconds = lib.run_loop(carry())
    return {"published": published, "seconds": seconds}


def serve(_app: Headrace, _task: Any) -> NoReturn:
    """A relay as users run it, until it is killed."""
    lib.exec_module("headrace.cli", "outbox", "relay", "--app", "headrace_subscribed:app")


def wait(app: Headrace) -> None:
    """Until all events are out.

    Raises:
        TimeoutError: they are not.
    """
    end = time.monotonic() + OUT_S
    while pending := app.outbox.view().pending:
        if time.monotonic() > end:
            raise TimeoutError(f"{pending} events are not out after {OUT_S:g} s")
        time.sleep(0.05)


def lag(app: Headrace, task: Any, count: str, widest: str, writer: str) -> dict[str, list[float]]:
    """Seconds from written to published, with a relay that runs already and has nothing to do.

    `writer`: the library whose transactions hold the events; with "/add" each is in one of headrace's own.
    """
    library, _, alone = writer.partition("/")
    shop = headrace_orders.PLAIN[library](app, task)
    shop.open()
    for number in range(int(count) + lib.WARMUP):
        time.sleep(lib.gap(float(widest)))
        if alone:
            app.outbox.add(None, EVENT, payload=number)
            continue
        shop.order(number)
        app.outbox.add(shop.connection, EVENT, payload=number)
        shop.commit()
        if number < lib.WARMUP:
            wait(app)  # the relay may have to start first
    wait(app)
    samples = [
        float(micros) / 1_000_000 for micros in shop.values(LAGS["psycopg" if library == "session" else library])
    ]
    shop.close()
    return {"samples": samples[lib.WARMUP :]}
