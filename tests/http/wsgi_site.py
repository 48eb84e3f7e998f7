"""The app under test in WSGI: Flask behind the middleware, once for each set of options; served by wsgiref."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from flask import Flask, Response, jsonify, redirect, request, send_file
from sqlalchemy import create_engine, insert

from headrace.contrib.sqlalchemy import share_sqlite
from headrace.http import WSGIIdempotencyMiddleware, current_request
from tests.http.site import BIG, LARGE, OPTIONS, Site

site = Site()
flask = Flask(__name__)
TEXT = "text/plain; charset=utf-8"


@flask.get("/up")
def up() -> str:
    return str(os.getpid())


@flask.route("/<option>/orders", methods=["GET", "HEAD", "POST", "PATCH", "PUT"])
@flask.post("/<option>/other")
def run(option: str) -> Any:
    effect, then = request.args["effect"], request.args.get("then", "created")
    site.note(effect)
    if then.isdecimal():
        return Response(f"status {then}", int(then))
    return HANDLERS[then](effect)


def created(effect: str) -> Any:
    key = current_request()
    response = jsonify(effect=effect, body=request.get_data(as_text=True), fence=key and key.fence)
    response.status_code = 201
    response.headers.update(
        {"Location": f"/orders/{effect}", "Set-Cookie": "session=secret", "X-Request-Id": os.urandom(4).hex()}
    )
    return response


def held(effect: str) -> Any:
    site.hold(effect)
    return created(effect)


def fail(effect: str) -> Any:
    raise RuntimeError("after the effect")


def nothing_done(effect: str) -> Any:
    key = current_request()
    assert key is not None
    key.give_back()
    return Response("the bank is closed", 503)


def parts(effect: str, then: str) -> Iterator[bytes]:
    yield b"first,"
    if then == "breaks":
        raise RuntimeError("in the middle of the answer")
    if then == "slow":
        site.hold(effect)
    for number in range(100):
        yield b"%d," % number


def streamed(effect: str) -> Any:
    return Response(parts(effect, request.args["then"]), 201)


def sized(effect: str) -> Any:
    """A stream that tells its length: the client knows its end before the server does."""
    length = len(b"first,") + sum(len(b"%d," % number) for number in range(100))
    return Response(parts(effect, "sized"), 201, {"Content-Length": str(length)})


def big(effect: str) -> Any:
    return Response("b" * BIG, 201)


def large(effect: str) -> Any:
    """As much as is kept, and nothing that could be packed."""
    return Response(os.urandom(LARGE), 201)


def empty(effect: str) -> Any:
    return Response(status=204)


def moved(effect: str) -> Any:
    return redirect("/elsewhere", 303)


def file(effect: str) -> Any:
    return send_file(site.large_file, mimetype="text/plain")


def transaction(effect: str) -> Any:
    """The effect is a row, which commits with the answer."""
    then, key = request.args["then"], current_request()
    assert key is not None
    engine = share_sqlite(create_engine(site.settings.engine_url()))
    body = f"order {effect}"
    if then == "frozen":
        site.hold(effect)
    headers = {"Content-Type": TEXT, "Location": "/orders/1", "Set-Cookie": "a=b"}
    try:
        with engine.begin() as connection:
            connection.execute(insert(site.table()).values(effect=effect))
            key.complete(transaction=connection, status=201, headers=headers, body=body.encode())
            if then == "rollback":
                raise RuntimeError("before the commit")
        if then == "killed":
            site.hold(effect)
        if then == "fails_later":
            raise RuntimeError("after the commit")
    finally:
        engine.dispose()
    return Response(body, 201, headers)


HANDLERS: dict[str, Callable[[str], Any]] = {
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
    **dict.fromkeys(("commit", "rollback", "killed", "frozen", "fails_later"), transaction),
}


def raw(environ: Any, start_response: Any) -> Iterable[bytes]:
    """An app without a framework, whose exceptions reach the server as they are."""
    site.note(environ["QUERY_STRING"].partition("effect=")[2].partition("&")[0])
    kind = environ["PATH_INFO"].rpartition("/")[2]
    if kind == "list":
        start_response("201 Made", [("Content-Type", "text/plain")])
        return [b"one,", b"two"]
    if kind == "written":
        start_response("201 Made", [("Content-Type", "text/plain")])(b"written,")
        return [b"returned"]
    if kind == "wrapped":
        start_response("201 Made", [("Content-Type", "text/plain")])
        wrapped: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(site.large_file.read_bytes()))
        return wrapped
    if kind == "half":
        start_response("200 OK", [])(b"half")
    raise RuntimeError("no answer")


def inner(environ: Any, start_response: Any) -> Iterable[bytes]:
    return (raw if "/raw/" in environ["PATH_INFO"] else flask)(environ, start_response)


GUARDED = {name: WSGIIdempotencyMiddleware(inner, site.jobs, **options) for name, options in OPTIONS.items()}


def web(environ: Any, start_response: Any) -> Iterable[bytes]:
    first = environ["PATH_INFO"].split("/")[1]
    return GUARDED.get(first, inner)(environ, start_response)


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.0"


if __name__ == "__main__":
    make_server("127.0.0.1", int(sys.argv[1]), web, Server, Handler).serve_forever()
