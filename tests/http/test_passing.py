"""What the middleware leaves alone, and what it hides, seen from the app that it wraps."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Headrace, WrongColour
from headrace.core.once_records import OnceClaim, TakeOnce
from headrace.errors import LeaseLost
from headrace.http import IdempotencyMiddleware, IdempotentRequest, WSGIIdempotencyMiddleware, current_request
from headrace.http.current import SCOPE_KEY
from headrace.http.head import fingerprint, record_key
from tests.contrib.serving import free_port


class Inner:
    """An ASGI app that notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any]] = []
        self.current: list[IdempotentRequest | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls.append((scope, receive, send))
        self.current.append(current_request())
        if scope["type"] == "http":
            assert (await receive())["body"] == b"body"
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.trailers", "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})


class Wire:
    """A server's side of one request. `fails`: the client is gone, and sending says so."""

    def __init__(self, *messages: dict[str, Any], fails: bool = False) -> None:
        self.messages = list(messages) or [{"type": "http.request", "body": b"body", "more_body": False}]
        self.fails = fails
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        if self.fails:
            raise ConnectionResetError
        self.sent.append(message)


def scope_of(key: str | None = "k", **more: Any) -> dict[str, Any]:
    headers = [] if key is None else [(b"Idempotency-Key", key.encode())]
    return {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers, **more}


@pytest.mark.parametrize("scope", [{"type": "lifespan"}, {"type": "websocket", "path": "/"}, scope_of(None)])
async def test_other_connections_are_handed_on_as_they_are(scope: dict[str, Any]) -> None:
    inner, wire = Inner(), Wire()
    receive, send = wire.receive, wire.send
    await IdempotencyMiddleware(inner, Headrace("memory://"))(scope, receive, send)
    assert inner.calls == [(scope, receive, send)]
    assert inner.calls[0][0] is scope
    assert inner.current == [None]
    assert SCOPE_KEY not in scope


async def test_a_handler_finds_its_request() -> None:
    inner, wire, scope = Inner(), Wire(), scope_of()
    await IdempotencyMiddleware(inner, Headrace("memory://"))(scope, wire.receive, wire.send)
    (request,) = inner.current
    assert request is not None
    assert request is scope[SCOPE_KEY]
    assert request.key == "k"
    assert request.fence > 0
    assert current_request() is None
    assert [message["type"] for message in wire.sent] == [
        "http.response.start",
        "http.response.trailers",
        "http.response.body",
    ]


async def test_one_that_is_wrapped_twice_is_guarded_once() -> None:
    inner, app, first, again = Inner(), Headrace("memory://"), Wire(), Wire()
    middleware = IdempotencyMiddleware(IdempotencyMiddleware(inner, app), app)
    await middleware(scope_of(), first.receive, first.send)
    await middleware(scope_of(), again.receive, again.send)
    assert [wire.sent[0]["status"] for wire in (first, again)] == [200, 200]
    assert len(inner.calls) == 1


async def test_extensions_that_would_send_a_file_past_us_are_hidden() -> None:
    """B157."""
    inner, wire = Inner(), Wire()
    scope = scope_of(extensions={"http.response.pathsend": {}, "http.response.early_hint": {}})
    await IdempotencyMiddleware(inner, Headrace("memory://"))(scope, wire.receive, wire.send)
    assert set(inner.calls[0][0]["extensions"]) == {"http.response.early_hint"}


async def test_a_client_that_goes_before_its_body_is_there_uses_up_no_key() -> None:
    inner, app = Inner(), Headrace("memory://")
    middleware = IdempotencyMiddleware(inner, app)
    wire = Wire({"type": "http.request", "body": b"bo", "more_body": True}, {"type": "http.disconnect"})
    await middleware(scope_of(), wire.receive, wire.send)
    assert (inner.calls, wire.sent) == ([], [])
    again = Wire()
    await middleware(scope_of(), again.receive, again.send)
    assert again.sent[0]["status"] == 200


async def test_an_answer_that_cannot_be_sent_is_stored() -> None:
    """B157: some servers raise where their client has gone."""
    inner, app = Inner(), Headrace("memory://")
    middleware = IdempotencyMiddleware(inner, app)
    gone, again = Wire(fails=True), Wire()
    await middleware(scope_of(), gone.receive, gone.send)
    await middleware(scope_of(), again.receive, again.send)
    assert len(inner.calls) == 1
    assert (b"idempotent-replayed", b"true") in again.sent[0]["headers"]


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:{port}/0", "postgresql://127.0.0.1:{port}/x", "mysql://127.0.0.1:{port}/x"]
)
async def test_a_store_that_nobody_serves_is_503(url: str) -> None:
    wire, inner = Wire(), Inner()
    async with Headrace(url.format(port=free_port())) as app:
        await IdempotencyMiddleware(inner, app)(scope_of(), wire.receive, wire.send)
    assert wire.sent[0]["status"] == 503
    assert (b"retry-after", b"5") in wire.sent[0]["headers"]
    assert inner.calls == []


async def test_a_handler_that_is_cancelled_leaves_its_key_to_the_lease() -> None:
    """As one whose server is killed: B153."""
    app, begun = Headrace("memory://"), asyncio.Event()

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    wire = Wire()
    serving = asyncio.create_task(IdempotencyMiddleware(inner, app)(scope_of(), wire.receive, wire.send))
    await begun.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    claim = OnceClaim(
        "http", record_key(None, "k"), fingerprint("POST", "/", b"", b"body"), "other", lease_us=1_000_000
    )
    (taken,) = app.driver.run(TakeOnce((claim,)))
    assert taken.status == "held"
    assert 0 < taken.lease_us <= 30_000_000


async def test_a_late_transaction_is_refused(sqlite_path: Path) -> None:
    """Once the request has its answer, a task that it has left behind ends its record in no other way."""
    inner, wire = Inner(), Wire()
    with Headrace(f"sqlite:///{sqlite_path}") as app:
        await IdempotencyMiddleware(inner, app)(scope_of(), wire.receive, wire.send)
        (request,) = inner.current
        assert request is not None
        with pytest.raises(WrongColour, match="acomplete"):
            request.complete(transaction=None, status=200)
        await asyncio.to_thread(_refused, request, sqlite_path)
        await app.aclose()


def _refused(request: IdempotentRequest, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin immediate")
        with pytest.raises(LeaseLost, match="roll back"):
            request.complete(transaction=connection, status=200)
        headers = {"Location": "a\r\nb"}
        for status in (99, 200):
            with pytest.raises(ConfigError, match="no server can send"):
                request.complete(transaction=connection, status=status, headers=headers)


def test_a_wsgi_request_that_breaks_off_is_not_run() -> None:
    calls: list[Any] = []
    middleware = WSGIIdempotencyMiddleware(lambda environ, start: calls.append(environ) or [], Headrace("memory://"))
    statuses: list[str] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "CONTENT_LENGTH": "5",
        "HTTP_IDEMPOTENCY_KEY": "k",
        "wsgi.input": io.BytesIO(b"four"),
    }
    body = b"".join(middleware(environ, lambda status, headers: statuses.append(status)))
    assert (statuses, calls) == (["400 Bad Request"], [])
    assert b"incomplete" in body
