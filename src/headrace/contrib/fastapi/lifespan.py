"""From the start of a web process to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from headrace.app import Headrace
from headrace.core.operations import Prepare
from headrace.errors import StoreUnavailable
from headrace.worker import Exit, Worker

logger = logging.getLogger("headrace.fastapi")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]
Own = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]  # with a state or without

STATE = "headrace"  # where requests find the app: request.state.headrace


def lifespan(app: Headrace, own: Own | None = None, *, worker: Callable[[], Worker] | None = None) -> Lifespan:
    """A lifespan for FastAPI, Starlette or a router: `FastAPI(lifespan=lifespan(app))`.

    It makes the tables that are missing, and closes all connections at the end. A store that cannot be reached does not
    keep the web process from starting: `enqueue` says so as long as it is away. Requests find the app as
    `request.state.headrace`.

    Args:
        app: may be shared by several web apps, event loops and test clients; used after its end it opens again.
        own: your own lifespan. It runs inside this one, so it may enqueue at its start and at its end; the state it
            yields is kept.
        worker: makes a worker that runs in this process, on the event loop of the requests: `worker=app.worker`, or
            `worker=lambda: app.worker(concurrency=10)`. It stops within its grace when the web process does. A process
            that dies takes it with it: the jobs that it ran are run again after their lease by another worker, or by
            this one once the process is back.

    Raises:
        ConfigError: at the start: an extra is missing.
        StoreMisconfigured: at the start: the store's settings would lose jobs.
    """

    @asynccontextmanager
    async def whole(web: Any) -> AsyncIterator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(app.aclose)
            await _open(app)
            state = await stack.enter_async_context(own(web)) if own is not None else None
            if worker is not None:
                await stack.enter_async_context(_working(worker()))
            yield {STATE: app, **(state or {})}

    return whole


async def _open(app: Headrace) -> None:
    drivers = [app.driver]
    if app.has_outbox_elsewhere:
        drivers.append(app.outbox_driver)
    for driver in drivers:
        try:
            await driver.arun(Prepare())
        except StoreUnavailable as error:
            logger.warning("the web process starts without its store: %s", error)


@asynccontextmanager
async def _working(worker: Worker) -> AsyncIterator[None]:
    running = asyncio.create_task(worker.run(), name=f"headrace worker {worker.id}")
    running.add_done_callback(_tell)
    try:
        yield
    finally:
        if not running.done():
            worker.stop()
            await asyncio.wait([running])


def _tell(running: asyncio.Task[Exit]) -> None:
    """Requests go on without it, so nobody else would notice."""
    if running.cancelled():
        logger.error("the worker in this web process was cancelled: its jobs wait for another one")
    elif (error := running.exception()) is not None:
        logger.error("the worker in this web process has ended: its jobs wait for another one", exc_info=error)
    elif running.result() is Exit.RECYCLE:
        logger.error("the worker in this web process has reached its limit: its jobs wait for another one")
