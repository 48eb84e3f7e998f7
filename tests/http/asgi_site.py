"""The app under test in ASGI: Starlette behind the middleware, once for each set of options."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from headrace.contrib.sqlalchemy import share_sqlite
from headrace.http import IdempotencyMiddleware, current_request
from tests.http.site import BIG, LARGE, OPTIONS, Site

site = Site()


async def up(request: Request) -> Response:
    return PlainTextResponse(str(os.getpid()))


async def run(request: Request) -> Response:
    effect, then = request.query_params["effect"], request.query_params.get("then", "created")
    site.note(effect)
    if then.isdecimal():
        return PlainTextResponse(f"status {then}", int(then))
    return await HANDLERS[then](request, effect)


async def created(request: Request, effect: str) -> Response:
    key = current_request()
    body = {"effect": effect, "body": (await request.body()).decode(), "fence": key and key.fence}
    headers = {"Location": f"/orders/{effect}", "Set-Cookie": "session=secret", "X-Request-Id": os.urandom(4).hex()}
    return JSONResponse(body, 201, headers)


async def held(request: Request, effect: str) -> Response:
    await asyncio.to_thread(site.hold, effect)
    return await created(request, effect)


async def fail(request: Request, effect: str) -> Response:
    raise RuntimeError("after the effect")


async def nothing_done(request: Request, effect: str) -> Response:
    key = current_request()
    assert key is not None
    key.give_back()
    return PlainTextResponse("the bank is closed", 503)


async def parts(effect: str, then: str) -> AsyncIterator[bytes]:
    yield b"first,"
    if then == "breaks":
        raise RuntimeError("in the middle of the answer")
    if then == "slow":
        await asyncio.to_thread(site.hold, effect)
    for number in range(100):
        yield b"%d," % number


async def streamed(request: Request, effect: str) -> Response:
    return StreamingResponse(parts(effect, request.query_params["then"]), 201)


async def sized(request: Request, effect: str) -> Response:
    """A stream that tells its length: the client knows its end before the server does."""
    length = len(b"first,") + sum(len(b"%d," % number) for number in range(100))
    return StreamingResponse(parts(effect, "sized"), 201, {"Content-Length": str(length)})


async def big(request: Request, effect: str) -> Response:
    return PlainTextResponse("b" * BIG, 201)


async def large(request: Request, effect: str) -> Response:
    """As much as is kept, and nothing that could be packed."""
    return Response(os.urandom(LARGE), 201)


async def empty(request: Request, effect: str) -> Response:
    return Response(status_code=204)


async def moved(request: Request, effect: str) -> Response:
    return RedirectResponse("/elsewhere", 303)


async def file(request: Request, effect: str) -> Response:
    return FileResponse(site.large_file)


async def background(request: Request, effect: str) -> Response:
    return PlainTextResponse("accepted", 202, background=BackgroundTask(site.note, f"{effect} in the background"))


async def late_failure(request: Request, effect: str) -> Response:
    async def fail_late() -> None:
        raise RuntimeError("in the background")

    return PlainTextResponse("accepted", 202, background=BackgroundTask(fail_late))


async def transaction(request: Request, effect: str) -> Response:
    """The effect is a row, which commits with the answer."""
    then, key = request.query_params["then"], current_request()
    assert key is not None
    engine = share_sqlite(create_async_engine(site.settings.engine_url(awaited=True)))
    body = f"order {effect}"
    if then == "frozen":
        await asyncio.to_thread(site.hold, effect)
    try:
        async with engine.begin() as connection:
            await connection.execute(insert(site.table()).values(effect=effect))
            await key.acomplete(
                transaction=connection,
                status=201,
                headers={"Content-Type": "text/plain; charset=utf-8", "Location": "/orders/1", "Set-Cookie": "a=b"},
                body=body,
            )
            if then == "rollback":
                raise RuntimeError("before the commit")
        if then == "killed":
            await asyncio.to_thread(site.hold, effect)
        if then == "fails_later":
            raise RuntimeError("after the commit")
    finally:
        await engine.dispose()
    return PlainTextResponse(body, 201, {"Location": "/orders/1", "Set-Cookie": "a=b"})


HANDLERS: dict[str, Callable[[Request, str], Awaitable[Response]]] = {
    "created": created,
    "held": held,
    "fail": fail,
    "nothing_done": nothing_done,
    "streamed": streamed,
    "breaks": streamed,
    "slow": streamed,
    "sized": sized,
    "big": big,
    "large": large,
    "empty": empty,
    "moved": moved,
    "file": file,
    "background": background,
    "late_failure": late_failure,
    **dict.fromkeys(("commit", "rollback", "killed", "frozen", "fails_later"), transaction),
}


async def straight(request: Request, call_next: Any) -> Response:
    """A middleware of the kind that hands on a stream of its own."""
    response: Response = await call_next(request)
    return response


async def raw(scope: Any, receive: Any, send: Any) -> None:
    """An app without a framework, whose exceptions reach the server as they are."""
    site.note(scope["query_string"].decode().partition("effect=")[2].partition("&")[0])
    if scope["path"].endswith("/mute"):
        return
    if scope["path"].endswith("/half"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("no answer")


ROUTES = [
    Route("/up", up),
    Route("/{option}/orders", run, methods=["GET", "HEAD", "POST", "PATCH", "PUT"]),
    Route("/{option}/other", run, methods=["POST"]),
]
starlette = Starlette(routes=ROUTES)
layered = Starlette(routes=ROUTES, middleware=[Middleware(BaseHTTPMiddleware, dispatch=straight)])


async def inner(scope: Any, receive: Any, send: Any) -> None:
    path = scope.get("path", "")
    await (raw if "/raw/" in path else layered if "/tenant/" in path else starlette)(scope, receive, send)


GUARDED = {name: IdempotencyMiddleware(inner, site.jobs, **options) for name, options in OPTIONS.items()}


async def web(scope: Any, receive: Any, send: Any) -> None:
    first = scope.get("path", "/").split("/")[1]
    await GUARDED.get(first, inner)(scope, receive, send)
