"""A store that refuses what it is told of a request, though it is there: the effect has happened all the same."""

import io
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import pytest

from headrace import Headrace, PayloadTooLarge, StoreUnavailable
from headrace.core.once_records import EndOnce, LookOnce, RenewOnce
from headrace.core.operations import Operation
from headrace.drivers.memory import MemoryDriver
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from headrace.http.head import record_key
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from tests.waiting import await_until, wait_until
from tests.worker.working import work_for

R = TypeVar("R")


class Small(MemoryDriver):
    """Takes results of 200 bytes at most, as MySQL with a small `max_allowed_packet`, and fails each 2nd renewal."""

    renewals = 0
    outages = 0  # so many ends do not arrive

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, EndOnce) and self.outages:
            self.outages -= 1
            raise StoreUnavailable("no answer")
        if isinstance(operation, EndOnce) and len(operation.end.result or b"") > 200:
            raise PayloadTooLarge("no packet of this size")
        if isinstance(operation, RenewOnce):
            self.renewals += 1
            if self.renewals % 2:
                raise RuntimeError("what no library documents")
        return super().run(operation)

    async def arun(self, operation: Operation[R]) -> R:
        return self.run(operation)


async def answers_over_asgi(app: Headrace, runs: list[int], wait: Callable[[], Awaitable[None]]) -> list[int]:
    statuses: list[int] = []

    async def web(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 300})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    middleware = IdempotencyMiddleware(web, app, lease=3)
    for _ in range(2):
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
        await middleware(scope, receive, send)
        await wait()
    return statuses


def answers_over_wsgi(app: Headrace, runs: list[int], wait: Callable[[], None]) -> list[int]:
    statuses: list[int] = []

    def web(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        runs.append(1)
        start_response("201 Created", [])
        return [b"x" * 300]

    middleware = WSGIIdempotencyMiddleware(web, app, lease=3)
    for _ in range(2):
        environ = {"REQUEST_METHOD": "POST", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO()}
        body = b"".join(middleware(environ, lambda status, headers: statuses.append(int(status[:3]))))
        assert body
        wait()
    return statuses


def test_over_asgi_the_key_is_done_without_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """B155: a key that is free again would repeat the effect."""
    clock, runs = VirtualClock(), list[int]()
    app = Headrace("memory://")
    app.driver = Small(MemoryStore(now=clock))

    async def main() -> list[int]:
        return await answers_over_asgi(app, runs, lambda: work_for(100))

    assert (run_virtual(main(), clock), len(runs)) == ([201, 409], 1)
    assert sum("cannot be replayed" in line.getMessage() for line in caplog.records) == 1


def test_over_wsgi_the_key_is_done_without_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    runs = list[int]()
    app = Headrace("memory://")
    app.driver = Small(MemoryStore())
    assert (answers_over_wsgi(app, runs, lambda: None), len(runs)) == ([201, 409], 1)
    assert [line.levelno for line in caplog.records if "cannot be replayed" in line.getMessage()] == [logging.ERROR]


def is_done(app: Headrace) -> bool:
    view = app.driver.run(LookOnce("http", record_key(None, "k")))
    return view is not None and view.state == "done"


@pytest.mark.parametrize("shell", ["asgi", "wsgi"])
async def test_an_answer_that_is_refused_once_the_store_is_back(shell: str, caplog: pytest.LogCaptureFixture) -> None:
    """B155: the key is done without its answer all the same, and not free after its lease."""
    runs = list[int]()
    app = Headrace("memory://")
    app.driver = driver = Small(MemoryStore())
    driver.outages = 2

    async def done() -> None:
        await await_until(lambda: is_done(app), 30)

    if shell == "asgi":
        statuses = await answers_over_asgi(app, runs, done)
    else:
        statuses = answers_over_wsgi(app, runs, lambda: assert_in_time(app))
    assert (statuses, len(runs)) == ([201, 409], 1)
    assert sum("cannot be replayed" in line.getMessage() for line in caplog.records) == 1


def assert_in_time(app: Headrace) -> None:
    assert wait_until(lambda: is_done(app), 30, "the end of the key")
