"""headrace, on each of its stores, with async and plain handlers; the worker is `headrace work`, as users run it."""

import asyncio
import importlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import peerlib as lib

from headrace import Headrace, Pending

CONCURRENCY = 100
CHUNK = 5_000  # jobs of one bulk call, as many as the fastest peer takes
SYNC = lib.MODE.endswith("sync")
URLS = {
    "redis": lib.REDIS_URL,
    "sqlite": f"sqlite:///{lib.SQLITE_PATH}",
    "postgres": lib.POSTGRES_URL,
    "mysql": lib.MYSQL_URL,
}
app = Headrace(
    URLS[lib.MODE.removesuffix("-sync")],
    lease=lib.by_profile(30, 30, 30, 6),
    busy_timeout=lib.by_profile(5, 5, 5, 2),
)
JOBS: dict[str, Any] = lib.SYNC_JOBS if SYNC else lib.ASYNC_JOBS
TASKS: dict[str, Any] = {kind: app.task(name=kind)(job) for kind, job in JOBS.items()}
TASKS["once"] = app.task(name="once", once="n:{order_id}")(JOBS["noop"])
if not SYNC:

    @app.poll(name="poll", every="1h", give_up_after="2d")
    async def ask(order_id: int) -> Pending:
        """The upstream has no final answer yet."""
        lib.log_event(order_id)
        return Pending()

    TASKS["poll"] = ask


def work() -> None:
    """The profiles "default" and "reliable" are `headrace work` without any option."""
    options = lib.by_profile(["--concurrency", str(CONCURRENCY)], ["--concurrency", str(CONCURRENCY)], [])
    lib.exec_module("headrace.cli", "work", "--app", "peer_headrace:app", *options)


class PlainPeer(lib.SyncPeer):
    """Plain handlers, and a producer without an event loop."""

    chunk = CHUNK

    def open(self) -> None:
        """Connect; makes the tables."""
        app.jobs.queues()

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        TASKS[kind].enqueue(order_id=index)

    def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        TASKS[kind].enqueue_many({"order_id": index} for index in indexes)

    def work(self) -> None:
        """Be a worker."""
        work()


class AwaitedPeer(lib.AsyncPeer):
    """Async handlers, and a producer in an event loop."""

    chunk = CHUNK

    async def open(self) -> None:
        """Connect; makes the tables."""
        await app.ajobs.queues()

    async def close(self) -> None:
        """Disconnect."""
        await app.aclose()

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        await TASKS[kind].aenqueue(order_id=index)

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs."""
        await TASKS[kind].aenqueue_many({"order_id": index} for index in indexes)

    def work(self) -> None:
        """Be a worker."""
        work()


def gather(count: str, width: str) -> dict[str, float]:
    """`width` coroutines that enqueue one by one, at the same time, as requests of a web server would."""

    async def go() -> float:
        await app.ajobs.queues()
        numbers = iter(range(int(count)))

        async def request() -> None:
            for number in numbers:
                await TASKS["noop"].aenqueue(order_id=number)

        began = time.perf_counter()
        await asyncio.gather(*(request() for _ in range(int(width))))
        spent = time.perf_counter() - began
        await app.aclose()
        return spent

    return {"n": int(count), "seconds": lib.run_loop(go())}


def ceiling(count: str) -> dict[str, float]:
    """The 10 ms job without any job system: 100 at a time in the same event loop, or in 100 threads."""
    numbers = iter(range(int(count)))

    def plain() -> None:
        for number in numbers:
            lib.io10(number)

    async def awaited() -> None:
        for number in numbers:
            await lib.aio10(number)

    async def together() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(awaited() for _ in range(CONCURRENCY)))
        return time.perf_counter() - began

    if not SYNC:
        return {"n": int(count), "seconds": lib.run_loop(together())}
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        began = time.perf_counter()
        for future in [pool.submit(plain) for _ in range(CONCURRENCY)]:
            future.result()
        return {"n": int(count), "seconds": time.perf_counter() - began}


def remaining() -> dict[str, int]:
    """Jobs that the store still holds: what ran but was not settled would show up here; how many are scheduled."""
    views = app.jobs.queues()
    scheduled = sum(view.scheduled for view in views)
    return {
        "jobs": scheduled + sum(view.ready + view.running + view.parked + view.failed for view in views),
        "scheduled": scheduled,
    }


def orders(*words: str) -> dict[str, Any]:
    """Orders with jobs in their transactions; with libraries that a worker need not load."""
    return dict(importlib.import_module("headrace_orders").sell(app, TASKS["noop"], *words))


def events(command: str, *words: str) -> dict[str, Any]:
    """Events and their relay: `write`, `relay`, `serve`, `lag`."""
    app.on("OrderCreated")(TASKS["noop"])
    return dict(getattr(importlib.import_module("headrace_events"), command)(app, TASKS["noop"], *words))


def web(command: str, *words: str) -> dict[str, Any]:
    """A POST with and without the Idempotency-Key middleware: `serve`, `ask`."""
    return dict(importlib.import_module("headrace_web").COMMANDS[command](app, *words) or {})


def failing(command: str, *words: str) -> dict[str, Any]:
    """Jobs that fail, with an app of their own: see headrace_failing."""
    return dict(importlib.import_module("headrace_failing").COMMANDS[command](*words) or {})


if __name__ == "__main__":
    lib.main(
        PlainPeer() if SYNC else AwaitedPeer(),
        gather=gather,
        ceiling=ceiling,
        remaining=remaining,
        orders=orders,
        events=events,
        web=web,
        failing=failing,
    )
