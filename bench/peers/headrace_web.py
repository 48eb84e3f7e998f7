"""One POST under uvicorn, with and without the Idempotency-Key middleware, and its client; loaded by peer_headrace."""

import http.client
import json
import time
from typing import Any

import peerlib as lib
import uvicorn

from headrace import Headrace
from headrace.http import IdempotencyMiddleware

HOST = "127.0.0.1"
BARE, GUARDED = "/orders", "/guarded/orders"
WARM = 20  # rounds before the samples: the first ones connect and make the tables


async def sell(_scope: Any, receive: Any, send: Any) -> None:
    """The handler: an order as JSON."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    order = json.loads(body)
    lib.log_event(order["order_id"])
    answer = json.dumps(order | {"state": "created"}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def serve(app: Headrace, port: str) -> None:
    """One process that answers both paths, until it is killed."""
    guarded = IdempotencyMiddleware(sell, app)

    async def site(scope: Any, receive: Any, send: Any) -> None:
        await (guarded if scope["path"] == GUARDED else sell)(scope, receive, send)

    uvicorn.run(site, host=HOST, port=int(port), lifespan="off", access_log=False, log_level="warning")


def ask(_app: Headrace, port: str, count: str) -> dict[str, Any]:
    """Seconds of each request, all on one connection: in turn bare, guarded, and that one sent again.

    Every other turn the bare one comes last. `orders`: how many the handler must have seen.
    """
    connection = _connected(int(port))
    samples: dict[str, list[float]] = {"bare": [], "guarded": [], "replay": []}
    turns = int(count) + WARM
    for number in range(turns):
        bare = ("bare", BARE, 2 * number)
        guarded = [("guarded", GUARDED, 2 * number + 1), ("replay", GUARDED, 2 * number + 1)]
        for way, path, order in [bare, *guarded] if number % 2 else [*guarded, bare]:
            samples[way].append(_post(connection, path, order, replayed=way == "replay"))
    connection.close()
    return {"samples": {way: seconds[WARM:] for way, seconds in samples.items()}, "orders": 2 * turns}


def _connected(port: int) -> http.client.HTTPConnection:
    began = time.monotonic()
    while True:
        connection = http.client.HTTPConnection(HOST, port, timeout=lib.ANSWER_S)
        try:
            connection.connect()
        except ConnectionRefusedError:
            if time.monotonic() > began + lib.ANSWER_S:
                raise
            time.sleep(0.05)
        else:
            return connection


def _post(connection: http.client.HTTPConnection, path: str, order: int, *, replayed: bool) -> float:
    body = json.dumps({"order_id": order}).encode()
    headers = {
        "Authorization": "Bearer bench",
        "Content-Type": "application/json",
        "Idempotency-Key": f'"order-{order}"',
    }
    began = time.perf_counter()
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    spent = time.perf_counter() - began
    seen = answer.getheader("Idempotent-Replayed") == "true"
    if (answer.status, found.get("order_id"), seen) != (201, order, replayed):
        raise RuntimeError(f"order {order} to {path}: {answer.status} {found}, replayed: {seen}")
    return spent


COMMANDS = {"serve": serve, "ask": ask}
