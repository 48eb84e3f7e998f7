"""The middleware for ASGI."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from headrace.core.once_records import EndOnce, TakeOnce
from headrace.core.ports import Driver
from headrace.errors import HeadraceError, StoreError
from headrace.holding import LOST, REFUSED, Holding
from headrace.http import answers
from headrace.http.answers import Answer, Refused, Stored
from headrace.http.current import NAME, SCOPE_KEY, IdempotentRequest, entered
from headrace.http.head import RequestHead, declared_length
from headrace.http.ports import App, checked_app
from headrace.http.rules import Rules
from headrace.http.settings import Settings

logger = logging.getLogger("headrace.http")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# A server would send a file by itself, past whoever copies the answer (B157)
PAST_US = ("http.response.pathsend", "http.response.zerocopysend")


class IdempotencyMiddleware:
    """Runs a request that carries an `Idempotency-Key` once, and answers its repeats with the first answer.

        web = IdempotencyMiddleware(asgi_app, app)
        web.add_middleware(IdempotencyMiddleware, app)     # FastAPI and Starlette

    Options are the fields of `Settings`: name, methods, required, strict, principal, lease, lifetime, replay_errors,
    unstored, headers, max_request, max_response, outage.

    Args:
        web: the ASGI app.
        app: the `Headrace` whose store keeps the answers.

    Raises:
        ConfigError: an option is out of range.
    """

    def __init__(self, web: ASGIApp, /, app: App, **options: Any) -> None:
        self._web = web
        self._app = checked_app(app)
        self._rules = Rules(Settings(**options))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection. Web sockets, the lifespan and requests without a key pass through.

        So does what another one of these around this one looks after.
        """
        if scope["type"] != "http" or scope["method"] not in self._rules.methods or SCOPE_KEY in scope:
            await self._web(scope, receive, send)
            return
        head = ASGIHead(scope)
        try:
            key = self._rules.key_of(head)
            if key is None:
                await self._web(scope, receive, send)
                return
            await self._guard(head, key, receive, send)
        except Refused as refused:
            await _answer(send, refused.answer)

    async def _guard(self, head: ASGIHead, key: str, receive: Receive, send: Send) -> None:
        body = await self._body(head, receive)
        if body is None:
            return
        claim = self._rules.claim(head, key, body, self._app.new_id())
        driver = self._app.driver
        client = Client(body, receive, send)
        sent = time.monotonic()
        try:
            (taken,) = await driver.arun(TakeOnce((claim,)))
        except StoreError as error:
            logger.warning("an Idempotency-Key could not be checked: %s", error)
            if self._rules.settings.outage == "refuse":
                raise Refused(answers.outage()) from error
            head.scope[SCOPE_KEY] = None
            await self._web(head.scope, client.receive, send)
            return
        answer = self._rules.answer(taken)
        if answer is not None:
            raise Refused(answer)
        holding = Holding(driver, claim, taken.fence, NAME, sent)
        holding.start()
        request = IdempotentRequest(self._rules, driver, key, holding)
        await Exchange(self._rules, driver, client).run(self._web, head.scope, request)

    async def _body(self, head: ASGIHead, receive: Receive) -> bytes | None:
        """All of it; None: the client has gone."""
        self._rules.check_length(declared_length(head.header("content-length")) or 0)
        chunks: list[bytes] = []
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            length += len(chunks[-1])
            self._rules.check_length(length)
            more = message.get("more_body", False)
        return b"".join(chunks)


class ASGIHead(RequestHead):
    """Of a scope."""

    __slots__ = ()
    scope: Scope

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope["method"], scope["path"], scope.get("query_string", b""), scope)

    def values(self, name: str) -> list[str]:
        """Of all headers of that name."""
        wanted = name.encode("latin-1")
        return [value.decode("latin-1") for found, value in self.scope["headers"] if found.lower() == wanted]


class Client:
    """The other end of one request: its body is handed out again, and it may go at any time."""

    def __init__(self, body: bytes, receive: Receive, send: Send) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._gone = False

    async def receive(self) -> Message:
        """For the handler: the body once more, then what else comes."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """To whoever is there: the answer is kept for the one who comes again."""
        if not self._gone:
            try:
                await self._send(message)
            except OSError:
                self._gone = True


class Exchange:
    """One request that runs: the handler's answer is copied and stored."""

    def __init__(self, rules: Rules, driver: Driver, client: Client) -> None:
        self._rules = rules
        self._driver = driver
        self._client = client
        self._recording = rules.recording()
        self._held_back: list[Message] = []
        self._ended = False
        self._enough = asyncio.Event()  # no more of the answer is wanted

    async def run(self, web: ASGIApp, scope: Scope, request: IdempotentRequest) -> None:
        """The handler, and the end of the record."""
        self._request = request
        scope[SCOPE_KEY] = request
        extensions = scope.get("extensions")
        if extensions and any(name in extensions for name in PAST_US):
            scope["extensions"] = {name: value for name, value in extensions.items() if name not in PAST_US}
        try:
            with entered(request):
                await web(scope, self.receive, self.send)
        except Exception:
            await self._finish()
            raise
        else:
            await self._finish()
        finally:  # where the server has cancelled it, the lease frees the key, as it does where the server is killed
            request.holding.close()

    async def receive(self) -> Message:
        """For the handler, which learns that its client has gone once the answer is copied: streams go on to their end.

        It learns so after a lease at the latest.
        """
        message = await self._client.receive()
        if message["type"] == "http.disconnect":
            try:
                async with asyncio.timeout(self._rules.lease_us / 1_000_000):
                    await self._enough.wait()
            except TimeoutError:
                logger.debug("a handler goes on for longer than its lease after its client has gone")
        return message

    async def send(self, message: Message) -> None:
        """For the handler: what ends the answer is sent once the answer is stored."""
        if message["type"] == "http.response.start":
            headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ()))
            self._recording.start(message["status"], headers)
            if self._recording.declared_whole:  # for the client its head is all of the answer
                self._held_back.append(message)
                return
        elif message["type"] == "http.response.body":
            self._recording.add(message.get("body", b""))
            if not message.get("more_body", False):
                self._recording.complete = True
                if not self._request.holding.close():
                    await self._store()
                self._enough.set()
            elif self._recording.declared_whole:
                self._held_back.append(message)
                return
            if not self._recording.fits:
                self._enough.set()
        await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        for each in (*self._held_back, message):
            await self._client.send(each)
        self._held_back.clear()

    async def _finish(self) -> None:
        """Once the handler is done."""
        self._enough.set()
        if self._request.holding.close():
            await self._end(self._request.ended(None))  # does nothing if the handler's transaction was committed
        elif not self._ended:
            await self._store()
        for message in self._held_back:
            await self._client.send(message)

    async def _store(self) -> None:
        self._ended = True
        self._request.holding.close()  # background tasks, which run after the answer, need no lease
        stored: Stored | None = None if self._request.nothing_done else self._rules.conclude(self._recording)
        bare = self._request.ended(self._recording.bare())
        if not await self._end(self._request.ended(stored), bare):
            logger.warning(LOST, NAME, self._request.fence)

    async def _end(self, end: EndOnce, *otherwise: EndOnce) -> bool:
        """Whether the record was still this one's. `otherwise`: its end where the store refuses the first."""
        try:
            return await self._driver.arun(end)
        except StoreError as error:  # the client has its answer nevertheless: it is what has happened
            logger.warning("the answer to %s could not be stored; it is tried again: %s", NAME, error)
            self._request.holding.end_later(end, *otherwise)
            return True
        except HeadraceError:
            if not otherwise:
                raise
            logger.exception(REFUSED, NAME)
            return await self._end(*otherwise)


async def _answer(send: Send, answer: Answer) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.with_length()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
