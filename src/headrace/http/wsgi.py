"""The middleware for WSGI."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
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

Environ = dict[str, Any]
Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]


class WSGIIdempotencyMiddleware:
    """Runs a request that carries an `Idempotency-Key` once, and answers its repeats with the first answer.

        application = WSGIIdempotencyMiddleware(get_wsgi_application(), app)    # Django
        web.wsgi_app = WSGIIdempotencyMiddleware(web.wsgi_app, app)             # Flask

    Options are the fields of `Settings`: name, methods, required, strict, principal, lease, lifetime, replay_errors,
    unstored, headers, max_request, max_response, outage.

    Args:
        web: the WSGI app.
        app: the `Headrace` whose store keeps the answers.

    Raises:
        ConfigError: an option is out of range.
    """

    def __init__(self, web: WSGIApp, app: App, **options: Any) -> None:
        self._web = web
        self._app = checked_app(app)
        self._rules = Rules(Settings(**options))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request. One without a key passes through, or one that another of these looks after."""
        if environ["REQUEST_METHOD"] not in self._rules.methods or SCOPE_KEY in environ:
            return self._web(environ, start_response)
        head = WSGIHead(environ)
        try:
            key = self._rules.key_of(head)
            if key is None:
                return self._web(environ, start_response)
            return self._guard(head, key, start_response)
        except Refused as refused:
            return _answer(start_response, refused.answer)

    def _guard(self, head: WSGIHead, key: str, start_response: StartResponse) -> Iterable[bytes]:
        environ = head.scope
        body = self._body(environ)
        environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
        claim = self._rules.claim(head, key, body, self._app.new_id())
        driver = self._app.driver
        sent = time.monotonic()
        try:
            (taken,) = driver.run(TakeOnce((claim,)))
        except StoreError as error:
            logger.warning("an Idempotency-Key could not be checked: %s", error)
            if self._rules.settings.outage == "refuse":
                raise Refused(answers.outage()) from error
            environ[SCOPE_KEY] = None
            return self._web(environ, start_response)
        answer = self._rules.answer(taken)
        if answer is not None:
            raise Refused(answer)
        holding = Holding(driver, claim, taken.fence, NAME, sent)
        holding.start()
        request = IdempotentRequest(self._rules, driver, key, holding)
        environ[SCOPE_KEY] = request
        return Exchange(self._rules, driver, request).run(self._web, environ, start_response)

    def _body(self, environ: Environ) -> bytes:
        declared, source = declared_length(environ.get("CONTENT_LENGTH")), environ["wsgi.input"]
        if declared is not None:
            self._rules.check_length(declared)
            body = _read(source, declared)
            if len(body) < declared:
                raise Refused(answers.incomplete())
            return body
        # sent in chunks: only where the server says so does the stream end with the body
        body = _read(source, self._rules.settings.max_request + 1) if environ.get("wsgi.input_terminated") else b""
        self._rules.check_length(len(body))
        return body


class WSGIHead(RequestHead):
    """Of an environ, where headers of one name have been joined by commas."""

    __slots__ = ()
    scope: Environ

    def __init__(self, environ: Environ) -> None:
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        super().__init__(
            environ["REQUEST_METHOD"],
            path.encode("latin-1").decode("utf-8", "replace"),
            environ.get("QUERY_STRING", "").encode("latin-1"),
            environ,
        )

    def values(self, name: str) -> list[str]:
        """At most one."""
        key = name.upper().replace("-", "_")
        value = self.scope.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}")
        return [] if value is None else [value]


class Exchange:
    """One request that runs: the handler's answer is copied while the server fetches it, and stored before its end."""

    def __init__(self, rules: Rules, driver: Driver, request: IdempotentRequest) -> None:
        self._rules = rules
        self._driver = driver
        self._request = request
        self._recording = rules.recording()
        self._held_back: list[bytes] = []
        self._result: Iterable[bytes] = ()
        self._chunks: Iterator[bytes] = iter(())
        self._ended = False

    def run(self, web: WSGIApp, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """The handler; what it returns for the server."""

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
            self._recording.start(int(status.split(" ", 1)[0]), headers)
            write = start_response(status, headers, exc_info) if exc_info else start_response(status, headers)

            def recorded(chunk: bytes) -> object:
                self._recording.add(chunk)
                return write(chunk)

            return recorded

        with _Ending(self._finish, self._drop), entered(self._request):
            self._result = web(environ, start)
            if isinstance(self._result, (list, tuple)):  # servers tell the length of such an answer by themselves
                self._copy_all(self._result)
                self._finish()
                return self._result
            self._chunks = iter(self._result)
        return self

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next part. What the client would take for the end is held back until the answer is stored."""
        with _Ending(self._store_unless_begun, self._drop), entered(self._request):
            for chunk in self._chunks:
                self._recording.add(chunk)
                if not self._recording.declared_whole:
                    return chunk
                self._held_back.append(chunk)
            self._recording.complete = True
            self._store_unless_begun()
        if self._held_back:
            return self._held_back.pop(0)
        raise StopIteration

    def close(self) -> None:
        """The server is done, perhaps because the client has gone: then what is missing is fetched for the record."""
        try:
            if not self._ended and not self._recording.complete:
                with _Ending(self._store_unless_begun, self._drop), entered(self._request):
                    self._fetch_rest()
        finally:
            try:
                getattr(self._result, "close", _nothing)()
            finally:
                self._finish()

    def _fetch_rest(self) -> None:
        give_up = time.monotonic() + self._rules.lease_us / 1_000_000
        for chunk in self._chunks:
            self._recording.add(chunk)
            if not self._recording.fits or time.monotonic() > give_up:
                return
        self._recording.complete = True

    def _copy_all(self, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self._recording.add(chunk)
        self._recording.complete = True

    def _finish(self) -> None:
        """Once the handler is done, and its transactions with it; may be called again."""
        self._store_unless_begun()
        if not self._ended:
            self._end(self._request.ended(None))  # does nothing if the handler's transaction was committed
            self._drop()

    def _store_unless_begun(self) -> None:
        if self._request.holding.close() or self._ended:
            return
        stored: Stored | None = None if self._request.nothing_done else self._rules.conclude(self._recording)
        bare = self._request.ended(self._recording.bare())
        if not self._end(self._request.ended(stored), bare):
            logger.warning(LOST, NAME, self._request.fence)
        self._drop()

    def _drop(self) -> None:
        """The record is left to its lease, if it has not ended."""
        self._ended = True
        self._request.holding.close()

    def _end(self, end: EndOnce, *otherwise: EndOnce) -> bool:
        """Whether the record was still this one's. `otherwise`: its end where the store refuses the first."""
        try:
            return self._driver.run(end)
        except StoreError as error:  # the client has its answer nevertheless: it is what has happened
            logger.warning("the answer to %s could not be stored; it is tried again: %s", NAME, error)
            self._request.holding.end_later(end, *otherwise)
            return True
        except HeadraceError:
            if not otherwise:
                raise
            logger.exception(REFUSED, NAME)
            return self._end(*otherwise)


class _Ending:
    """An exception ends the record: one of the handler's as its answer, another as the death of the server does."""

    def __init__(self, finish: Callable[[], None], drop: Callable[[], None]) -> None:
        self._finish = finish
        self._drop = drop

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self._finish()
        elif error is not None:
            self._drop()


def _nothing() -> None:
    return None


def _read(source: Any, length: int) -> bytes:
    chunks: list[bytes] = []
    while length > 0 and (chunk := source.read(length)):
        chunks.append(chunk)
        length -= len(chunk)
    return b"".join(chunks)


def _answer(start_response: StartResponse, answer: Answer) -> list[bytes]:
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Unknown"
    start_response(f"{answer.status} {phrase}", list(answer.with_length()))
    return [answer.body]
