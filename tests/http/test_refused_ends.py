"""A store that refuses what it is told of a request, though it is there: the effect has happened all the same."""

import io
import logging
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from headrace import Headrace, PayloadTooLarge
from headrace.core.once_records import EndOnce, RenewOnce
from headrace.core.operations import Operation
from headrace.drivers.memory import MemoryDriver
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from headrace.stores.memory import MemoryStore
from headrace.testing.clock import VirtualClock
from headrace.testing.loop import run_virtual
from tests.worker.working import work_for

R = TypeVar("R")


class Small(MemoryDriver):
    """Takes results of 200 bytes at most, as MySQL with a small `max_allowed_packet`, and fails each 2nd renewal."""

    renewals = 0

    def run(self, operation: Operation[R]) -> R:
        if isinstance(operation, EndOnce) and len(operation.end.result or b"") > 200:
            raise PayloadTooLarge("no packet of this size")
        if isinstance(operation, RenewOnce):
            self.renewals += 1
            if self.renewals % 2:
                raise RuntimeError("what no library documents")
        return super().run(operation)

    async def arun(self, operation: Operation[R]) -> R:
        return self.run(operation)


async def answers_over_asgi(app: Headrace, runs: list[int], seconds: float = 0) -> list[int]:
    statuses: list[int] = []

    async def web(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        await work_for(seconds)
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
        await work_for(100)
    return statuses


def answers_over_wsgi(app: Headrace, runs: list[int]) -> list[int]:
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
    return statuses


@pytest.mark.parametrize("seconds", [0, 20])
def test_over_asgi_the_key_is_done_without_its_answer(seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    """B155: a key that is free again would repeat the effect. It is renewed for as long as the handler takes."""
    clock, runs = VirtualClock(), list[int]()
    app = Headrace("memory://")
    app.driver = driver = Small(MemoryStore(now=clock))

    async def main() -> list[int]:
        return await answers_over_asgi(app, runs, seconds)

    assert (run_virtual(main(), clock), len(runs)) == ([201, 409], 1)
    assert sum("cannot be replayed" in line.getMessage() for line in caplog.records) == 1
    assert (driver.renewals > 10) == (seconds > 0)


def test_over_wsgi_the_key_is_done_without_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    runs = list[int]()
    app = Headrace("memory://")
    app.driver = Small(MemoryStore())
    assert (answers_over_wsgi(app, runs), len(runs)) == ([201, 409], 1)
    assert [line.levelno for line in caplog.records if "cannot be replayed" in line.getMessage()] == [logging.ERROR]
