"""The answer is stored before the client can see its end, also where its head is its end."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.once_records import LookOnce
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from headrace.http.head import record_key

KEY = LookOnce("http", record_key(None, "k"))
HEADS = [(204, []), (201, [("Content-Length", "0"), ("Location", "/orders/1")])]


@pytest.mark.parametrize(("status", "headers"), HEADS)
@pytest.mark.parametrize("chunks", [[b""], [b"", b""]])
async def test_an_answer_without_a_body_over_asgi(
    status: int, headers: list[tuple[str, str]], chunks: list[bytes]
) -> None:
    app, seen = Headrace("memory://"), list[tuple[str, str]]()

    async def web(scope: Any, receive: Any, send: Any) -> None:
        raw = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for left, chunk in enumerate(chunks, 1 - len(chunks)):
            await send({"type": "http.response.body", "body": chunk, "more_body": left < 0})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        view = await app.driver.arun(KEY)
        assert view is not None
        seen.append((message["type"].rpartition(".")[2], view.state))

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
    await IdempotencyMiddleware(web, app)(scope, receive, send)
    assert seen == [("start", "done"), *[("body", "done")] * len(chunks)]


@pytest.mark.parametrize(("status", "headers"), HEADS)
def test_an_answer_without_a_body_over_wsgi(status: int, headers: list[tuple[str, str]]) -> None:
    """Servers send the head with the first part of the body, be it empty."""
    app = Headrace("memory://")

    def web(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response(f"{status} Fine", headers)
        yield b""

    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": None}
    parts = iter(WSGIIdempotencyMiddleware(web, app)(environ, lambda *given: None))
    assert next(parts) == b""
    view = app.driver.run(KEY)
    assert view is not None
    assert view.state == "done"
