"""The answer is stored before the client sees its end, be it that of its head; after that nobody holds the key."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.once_records import LookOnce
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from headrace.http.head import record_key
from tests.worker.working import virtually, work_for

KEY = LookOnce("http", record_key(None, "k"))
SCOPE = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
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

    await IdempotencyMiddleware(web, app)(dict(SCOPE), receive, send)
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


def test_what_goes_on_after_the_answer_needs_no_lease(caplog: pytest.LogCaptureFixture) -> None:
    """Background tasks of Starlette: nobody has taken the key from them."""

    async def web(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"thank you"})
        await work_for(100)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        """To nobody."""

    async def main(app: Headrace) -> str:
        await IdempotencyMiddleware(web, app)(dict(SCOPE), receive, send)
        view = await app.driver.arun(KEY)
        return "" if view is None else view.state

    assert virtually(main) == "done"
    assert caplog.records == []
