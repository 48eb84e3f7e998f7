"""Records are renewed as long as their request runs, in the process that runs it, and no longer."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace import Headrace
from headrace.core.once_records import LookOnce, OnceClaim, TakeOnce
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from headrace.http.head import fingerprint, record_key
from tests.waiting import wait_until

FINGERPRINT = fingerprint("POST", "/", b"", b"")


def environ_of(key: str) -> dict[str, Any]:
    return {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": key, "wsgi.input": io.BytesIO()}


def take(app: Headrace, key: str, *, lease_s: float = 1, scope: str = "http") -> str:
    """Whether somebody else could have the key now."""
    claim = OnceClaim(scope, record_key(None, key), FINGERPRINT, "other", lease_us=int(lease_s * 1_000_000))
    return app.driver.run(TakeOnce((claim,)))[0].status


def test_an_answer_that_a_server_has_dropped_frees_its_key_after_the_lease() -> None:
    """Servers must close what they do not send; one that does not holds no key for ever."""

    def web(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"one"
        yield b"two"

    app = Headrace("memory://")
    middleware = WSGIIdempotencyMiddleware(web, app, lease=1)
    answer = iter(middleware(environ_of("k"), lambda status, headers: None))
    assert next(answer) == b"one"
    assert take(app, "k") == "held"
    del answer
    gc.collect()
    assert wait_until(lambda: take(app, "k") == "mine", 30, "the key to be free")


async def test_a_handler_that_blocks_its_loop_keeps_its_key() -> None:
    """B040: for longer than the lease, which a thread renews."""
    app, sent = Headrace("memory://"), list[str]()
    look = LookOnce("http", record_key(None, "k"))

    def lease() -> int:
        view = app.driver.run(look)
        assert view is not None
        return view.lease_until_us or 0

    async def web(scope: Any, receive: Any, send: Any) -> None:
        before = lease()
        assert wait_until(lambda: lease() > before + 1_500_000, 30, "renewals")
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
    await IdempotencyMiddleware(web, app, lease=1)(scope, receive, send)
    view = app.driver.run(look)
    assert view is not None
    assert (view.state, len(sent)) == ("done", 2)


FORKING = """
import io, os, sys
from pathlib import Path
from headrace import Headrace
from headrace.http import WSGIIdempotencyMiddleware

folder = Path(sys.argv[1])
app = Headrace(f"sqlite:///{folder / 'jobs.db'}")

def web(environ, start_response):
    if environ["HTTP_IDEMPOTENCY_KEY"] == "child":
        (folder / "go").read_text()  # a pipe: until the test opens its other end
    start_response("200 OK", [])
    return [b"done"]

middleware = WSGIIdempotencyMiddleware(web, app, lease=2)

def call(key):
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "HTTP_IDEMPOTENCY_KEY": key, "wsgi.input": io.BytesIO()}
    assert b"".join(middleware(environ, lambda status, headers: None)) == b"done"

call("parent")
child = os.fork()
if child == 0:
    call("child")
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_server_renews_its_own_records(tmp_path: Path) -> None:
    """As of gunicorn with --preload: the thread of the parent is not there in its children."""
    (tmp_path / "forking.py").write_text(FORKING)
    os.mkfifo(tmp_path / "go")
    command = [sys.executable, str(tmp_path / "forking.py"), str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "PYTHONWARNINGS": "ignore"}) as server:
        app = Headrace(f"sqlite:///{tmp_path / 'jobs.db'}")
        look = LookOnce("http", record_key(None, "child"))
        wait_until(lambda: app.driver.run(look), 30, "the child to take its key")
        assert take(app, "clock", lease_s=3, scope="test") == "mine"
        wait_until(lambda: take_again(app), 30, "more than a lease")
        assert take(app, "child") == "held"
        (tmp_path / "go").write_text("go")
    assert server.returncode == 0
    view = app.driver.run(look)
    assert view is not None
    assert view.state == "done"
    app.close()


def take_again(app: Headrace) -> bool:
    """Whether the record that only measures time is free."""
    claim = OnceClaim("test", record_key(None, "clock"), FINGERPRINT, "third", lease_us=1_000_000)
    return app.driver.run(TakeOnce((claim,)))[0].status == "mine"
