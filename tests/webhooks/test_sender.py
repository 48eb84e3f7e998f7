"""Webhooks as jobs, from `send` to the end of the delivery, against a receiver on loopback."""

import json
import logging
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import Fail, Headrace
from headrace.errors import ConfigError
from headrace.webhooks import Answer, Delivery, new_secret, verify
from tests.waiting import await_until
from tests.webhooks.hooks import SECRET, collecting, webhooks
from tests.webhooks.receiver import Receiver, answering, hanging, resetting, saying
from tests.worker.working import ended, state_of, working

BUSY, DONE, GONE = answering("503 Busy", b"not now"), answering("204 No Content"), answering("410 Gone", b"no more")


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


async def test_it_is_sent_until_the_receiver_has_taken_it(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, timeout=2)
    delivered, given_up = collecting(hooks.on_delivered), collecting(hooks.on_given_up)
    receiver.script = [
        BUSY,
        hanging,
        resetting(),
        saying(b"garbage"),
        answering("302 Found", b"", "Location: /x"),
        DONE,
    ]
    job = await hooks.asend(receiver.url(), {"order": 17}, event="order.paid", endpoint="shop-17")
    async with working(app):
        await await_until(lambda: delivered)
    assert len(receiver.requests) == 6
    assert {request.headers["webhook-id"] for request in receiver.requests} == {job.id}
    assert len({request.body for request in receiver.requests}) == 1
    assert [verify(SECRET, request.headers, request.body) for request in receiver.requests] == [job.id] * 6
    body = receiver.requests[0].body
    assert json.loads(body) | {"timestamp": ""} == {"type": "order.paid", "timestamp": "", "data": {"order": 17}}
    assert delivered == [Delivery(job.id, receiver.url(), "shop-17", "order.paid", body.decode(), said="204")]
    assert given_up == []
    assert await state_of(app, job.id) == "gone"


async def test_each_attempt_says_in_the_log_what_came_of_it(
    app: Headrace, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    hooks = webhooks(app)
    receiver.script = [answering("500 Oops", b"x" * 300), DONE]
    job = await hooks.asend(receiver.url(), {}, endpoint="shop-17")
    async with working(app):
        await await_until(lambda: _is_gone(app, job.id))
    lines = [record.getMessage() for record in caplog.records if job.id in record.getMessage()]
    assert [line for line in lines if "500 " + "x" * 200 in line and "x" * 201 not in line]
    assert f"webhook {job.id} to shop-17: 204" in lines


async def _is_gone(app: Headrace, id: str) -> bool:
    return await state_of(app, id) == "gone"


async def test_an_id_is_sent_once(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app)
    delivered = collecting(hooks.on_delivered)
    first = await hooks.asend(receiver.url(), {}, id="order-17")
    again = await hooks.asend(receiver.url(), {}, id="order-17")
    assert (first.id, first.status, again.status) == ("order-17", "new", "exists")
    async with working(app):
        await await_until(lambda: delivered)
        assert (await hooks.asend(receiver.url(), {}, id="order-17")).status == "exists"
    assert [request.headers["webhook-id"] for request in receiver.requests] == ["order-17"]
    assert [delivery.id for delivery in delivered] == ["order-17"]


@pytest.mark.parametrize(
    ("schedule", "header", "seconds"),
    [
        ("10ms x50, 1h", "Retry-After: 3600", 3600),
        ("10ms x50, 1h", "Retry-After: 999999999", 86_400),
        ("2h", "Retry-After: 5", 7200),
        ("2h", "X-Nothing: 5", 7200),
        ("alipay", "X-Nothing: 5", 240),
        ("standard-webhooks", "Retry-After: 60", 60),
        ("alipay", "Retry-After: 300", 300),
    ],
)
async def test_the_next_attempt_is_by_schedule_and_not_before_what_is_asked_for(
    app: Headrace, receiver: Receiver, schedule: str, header: str, seconds: int
) -> None:
    hooks = webhooks(app, schedule=schedule, give_up_after="100d")
    receiver.behaviour = answering("429 Too Many Requests", b"", header)
    job = await hooks.asend(receiver.url(), {})
    async with working(app):
        found = await ended(app, job.id, "scheduled")
    assert len(receiver.requests) == 1
    assert timedelta(seconds=seconds) <= found.due - found.enqueued < timedelta(seconds=seconds + 60)


@pytest.mark.parametrize("schedule", ["standard-webhooks", "alipay"])
async def test_the_first_attempt_is_at_once(app: Headrace, schedule: str) -> None:
    """A poll whose delays are made uneven puts off its first query too."""
    hooks = webhooks(app, schedule=schedule, give_up_after=None)
    for _ in range(20):
        job = await app.ajobs.get((await hooks.asend("https://shop.example/", {})).id)
        assert job is not None
        assert (job.state, job.due) == ("ready", job.enqueued)


async def test_a_receiver_that_is_gone_is_sent_nothing_more(app: Headrace, receiver: Receiver) -> None:
    gone: set[str] = set()
    hooks = webhooks(app, enabled=lambda endpoint: endpoint not in gone)
    delivered, given_up = collecting(hooks.on_delivered), collecting(hooks.on_given_up)
    disabled = collecting(hooks.on_disabled)
    receiver.behaviour = GONE
    first = await hooks.asend(receiver.url(), {"n": 1}, endpoint="shop-17")
    async with working(app):
        found = await ended(app, first.id, "cancelled")
        await await_until(lambda: disabled)
        gone.add("shop-17")
        second = await hooks.asend(receiver.url(), {"n": 2}, endpoint="shop-17")
        cancelled = await ended(app, second.id, "cancelled")
    assert found.failure == "cancelled (Cancel: the endpoint shop-17 wants no more: 410 no more)"
    assert cancelled.failure == "cancelled (Cancel: the endpoint shop-17 is not enabled)"
    assert disabled == [Delivery(first.id, receiver.url(), "shop-17", None, '{"n":1}', said="410 no more")]
    assert len(receiver.requests) == 1
    assert delivered == given_up == []


async def test_a_worker_that_dies_on_the_way_tells_of_a_gone_receiver_once(app: Headrace, receiver: Receiver) -> None:
    """As if it had died before the end was stored: with `twice` each attempt is made twice."""
    hooks = webhooks(app)
    disabled = collecting(hooks.on_disabled)
    receiver.behaviour = GONE
    job = await hooks.asend(receiver.url(), {})
    async with working(app, twice=True):
        await ended(app, job.id, "cancelled")
        await await_until(lambda: disabled)
    assert len({delivery.id for delivery in disabled}) == 1
    assert await state_of(app, f"{job.id}/disabled") == "gone"


async def test_an_id_that_comes_again_tells_of_a_gone_receiver_again(app: Headrace, receiver: Receiver) -> None:
    """What the first one set off may be kept for long, as where it has failed: its id is not that of the next one."""
    hooks = webhooks(app)

    @hooks.on_disabled
    def strike_out(delivery: Delivery) -> None:
        raise Fail(delivery.id)

    receiver.behaviour = GONE
    job = await hooks.asend(receiver.url(), {}, id="order-17")
    async with working(app):
        info = await ended(app, job.id, "cancelled")
        await ended(app, f"order-17/disabled-{round(info.enqueued.timestamp() * 1_000_000)}", "failed")
    assert len(receiver.requests) == 1


async def test_when_the_schedule_is_over_it_is_given_up(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, schedule="10ms", give_up_after="1h", max_polls=3)
    delivered, given_up = collecting(hooks.on_delivered), collecting(hooks.on_given_up)
    receiver.script = [answering("404 Not Found"), answering("503 Busy", b"x" * 300), BUSY]
    job = await hooks.asend(receiver.url(), {"a": 1}, event="e", endpoint="shop-17")
    async with working(app):
        found = await ended(app, job.id, "expired")
        await await_until(lambda: given_up)
    said = [(entry.attempt, entry.message) for entry in found.history]
    assert said == [(1, "404"), (2, "503 " + "x" * 200), (3, "503 not now")]
    assert found.failure == "timed out (Pending: 503 not now)"
    body = receiver.requests[0].body.decode()
    assert given_up == [Delivery(job.id, receiver.url(), "shop-17", "e", body)]
    assert len(receiver.requests) == 3
    assert delivered == []


async def test_what_was_given_up_is_sent_again_under_its_old_id(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, schedule="10ms", give_up_after="1h", max_polls=1)
    delivered, given_up = collecting(hooks.on_delivered), collecting(hooks.on_given_up)
    receiver.script, receiver.behaviour = [BUSY, BUSY], DONE
    first = await hooks.asend(receiver.url(), b"a=1", id="order-17", content_type="text/plain", endpoint="shop-17")
    async with working(app):
        await await_until(lambda: given_up)
        second = await hooks.aresend(given_up[0])
        await await_until(lambda: len(given_up) == 2)
        third = await hooks.aresend(given_up[1])
        await await_until(lambda: delivered)
    assert len({first.id, second.id, third.id}) == 3
    sent = [(request.headers["webhook-id"], request.headers["content-type"]) for request in receiver.requests]
    assert sent == [("order-17", "text/plain")] * 3
    assert len({request.body for request in receiver.requests}) == 1
    assert given_up == [Delivery("order-17", receiver.url(), "shop-17", None, "a=1", "text/plain")] * 2
    assert delivered == [Delivery("order-17", receiver.url(), "shop-17", None, "a=1", "text/plain", "204")]


async def test_the_word_success_is_waited_for(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, success="success")
    delivered = collecting(hooks.on_delivered)
    receiver.script = [answering(body=b"<html>fail</html>"), answering(body=b"success ")]
    receiver.behaviour = answering(body=b"success")
    await hooks.asend(receiver.url(), b"trade_status=DONE", content_type="application/x-www-form-urlencoded")
    async with working(app):
        await await_until(lambda: delivered)
    assert [request.body for request in receiver.requests] == [b"trade_status=DONE"] * 3
    assert receiver.requests[0].headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_callable_agrees_with_the_receiver(app: Headrace, receiver: Receiver) -> None:
    def accepted(answer: Answer) -> bool:
        return answer.body == b'{"code":0}'

    hooks = webhooks(app, success=accepted)
    delivered = collecting(hooks.on_delivered)
    receiver.script = [DONE]
    receiver.behaviour = answering(body=b'{"code":0}')
    await hooks.asend(receiver.url(), {})
    async with working(app):
        await await_until(lambda: delivered)
    assert len(receiver.requests) == 2


async def test_no_secret_is_stored_and_each_attempt_asks_anew(app: Headrace, receiver: Receiver) -> None:
    secrets = [new_secret(), new_secret()]
    asked: list[str] = []

    def secret_of(endpoint: str) -> str:
        asked.append(endpoint)
        return secrets[min(len(asked), 2) - 1]

    hooks = webhooks(app, secret=secret_of)
    receiver.script = [BUSY]
    job = await hooks.asend(receiver.url(), {}, endpoint="shop-17")
    assert asked == []
    stored = await app.ajobs.get(job.id)
    assert stored is not None
    assert stored.body is not None
    assert b"whsec_" not in stored.body
    async with working(app):
        await await_until(lambda: len(receiver.requests) == 2)
    assert asked == ["shop-17", "shop-17"]
    for secret, request in zip(secrets, receiver.requests, strict=True):
        assert verify(secret, request.headers, request.body) == job.id


async def test_a_missing_secret_is_an_error_and_nothing_is_sent_unsigned(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, secret=lambda endpoint: None)
    job = await hooks.asend(receiver.url(), {}, endpoint="shop-17")
    async with working(app):
        found = await await_until(lambda: _with_errors(app, job.id))
    assert "ConfigError: secret= has none for the endpoint 'shop-17'" in found.failure
    assert receiver.connections == 0


async def _with_errors(app: Headrace, id: str) -> Any:
    job = await app.ajobs.get(id)
    return job if job is not None and job.counts["errors"] else None


async def test_hooks_may_be_coroutines(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app, schedule="10ms", max_polls=1)
    said: list[str] = []

    @hooks.on_delivered
    async def delivered(delivery: Delivery) -> None:
        said.append(f"delivered {delivery.said}")

    @hooks.on_given_up
    async def given_up(delivery: Delivery) -> None:
        said.append("given up")

    @hooks.on_disabled
    async def disabled(delivery: Delivery) -> None:
        said.append(f"disabled {delivery.said}")

    receiver.script = [DONE, BUSY, GONE]
    async with working(app, concurrency=1):
        for count in range(1, 4):
            await hooks.asend(receiver.url(), {})
            await await_until(lambda count=count: len(said) == count)
    assert said == ["delivered 204", "given up", "disabled 410 no more"]


async def test_without_hooks_all_ends_as_well(app: Headrace, receiver: Receiver) -> None:
    hooks = webhooks(app)
    receiver.script = [GONE, DONE]
    first = await hooks.asend(receiver.url(), {})
    async with working(app):
        await ended(app, first.id, "cancelled")
        await hooks.asend(receiver.url(), {})
        await await_until(lambda: len(receiver.requests) == 2)


def test_it_commits_with_the_data(tmp_path: Path, receiver: Receiver) -> None:
    app = Headrace(f"sqlite:///{tmp_path / 'shop.db'}")
    hooks = webhooks(app)
    app.jobs.queues()
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level="IMMEDIATE")
    connection.execute("create table orders (id integer primary key)")
    for end in (connection.rollback, connection.commit):
        connection.execute("insert into orders default values")
        hooks.send(receiver.url(), {"order": 1}, event="order.paid", id="order-1", transaction=connection)
        end()
    connection.close()
    listed = app.jobs.list(state="ready", queue="webhooks").jobs
    app.close()
    assert [job.id for job in listed] == ["order-1"]


def test_a_copy_has_its_options(app: Headrace) -> None:
    hooks = webhooks(app)
    later = hooks.using(run_after=60, tags=["a"], tenant="acme")
    with pytest.raises(ConfigError, match="full stop"):
        hooks.using(id="a.b")
    job, plain = later.send("https://shop.example/", {}), hooks.send("https://shop.example/", {})
    found, other = app.jobs.get(job.id), app.jobs.get(plain.id)
    assert found is not None
    assert found.envelope is not None
    assert other is not None
    assert (found.state, found.envelope.tags, found.envelope.tenant) == ("scheduled", ("a",), "acme")
    assert other.state == "ready"
