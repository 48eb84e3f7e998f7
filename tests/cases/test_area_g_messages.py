"""What jobs are given: types, sizes, depths and foreign messages, through a real worker. Cases B096 to B104."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as clock_time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from headrace import ConfigError, Headrace, InvalidArguments, PayloadTooLarge, State
from headrace.core import codec
from tests.cases.running import ended, failed, put, working
from tests.waiting import await_until


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Order:
    id: UUID
    at: datetime
    total: Decimal


TYPED: tuple[tuple[Any, Any], ...] = (
    (UUID, UUID("12345678-1234-5678-1234-567812345678")),
    (datetime, datetime(2026, 3, 29, 2, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
    (datetime, datetime(2026, 3, 29, 2, 30)),  # noqa: DTZ001 - a naive one stays naive
    (date, date(2024, 2, 29)),
    (clock_time, clock_time(23, 59, 59, 999999)),
    (timedelta, timedelta(days=-1, microseconds=1)),
    (Decimal, Decimal("1.10")),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (Order, Order(UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), Decimal("0.00"))),
    (Point, Point(1, 2.5)),
    (set[int], {1, 2}),
    (tuple[int, str], (1, "a")),
    (bytes, b"\x00\xff"),
    (int, 2**63),
    (float, -0.0),
    (dict[str, str], {"__type__": "datetime", "__value__": "x"}),
    (Any, {"__type__": "datetime", "__value__": "x"}),
    (list[Order], [Order(UUID(int=2), datetime(2026, 1, 1, tzinfo=UTC), Decimal("1E+3"))]),
)


def echo(app: Headrace, annotation: Any) -> tuple[Any, list[Any]]:
    """A task that takes one value of that type, and what it was given."""
    given: list[Any] = []

    async def take(value: Any) -> None:
        given.append(value)

    take.__annotations__["value"] = annotation
    return app.task(name="take")(take), given


@pytest.mark.parametrize("number", range(len(TYPED)), ids=lambda number: str(TYPED[number][0]))
async def test_values_arrive_as_they_were_sent(number: int, app: Headrace) -> None:
    """B096: type and value, through the store and the worker."""
    annotation, value = TYPED[number]
    task, given = echo(app, annotation)
    async with working(app):
        assert await ended(app, (await task.aenqueue(value)).id) is None
    assert given == [value]
    assert type(given[0]) is type(value)
    assert str(given[0]) == str(value)  # -0.0, 1.10, the offset of a moment


@pytest.mark.parametrize(
    ("annotation", "value", "words"),
    [
        (int, 2**70, "value is the number 1180591620717411303424"),
        (Any, UUID(int=1), "value is"),  # it would arrive as a str
        (Any, {1, 2}, "value is"),
        (Any, object(), "value is"),
        (float, float("nan"), "value is nan"),  # B100
        (float, float("inf"), "value is inf"),
        (list[float], [0.0, float("-inf")], r"value\[1\] is -inf"),
        (Any, {"a": [float("nan")]}, "nan"),
        (str, "\ud800", "value"),
    ],
    ids=["2**70", "UUID as Any", "set as Any", "object", "NaN", "Infinity", "in a list", "in a dict", "surrogate"],
)
async def test_values_that_would_change_are_refused_at_enqueue(
    annotation: Any, value: Any, words: str, app: Headrace
) -> None:
    """B096, B100: by name, on every store alike; nothing is stored."""
    task, _ = echo(app, annotation)
    with pytest.raises(InvalidArguments, match=words):
        await task.aenqueue(value)
    with pytest.raises(InvalidArguments, match=words):
        await task.aenqueue_many([{"value": value}])
    assert (await app.ajobs.list("ready")).jobs == ()


async def test_messages_of_other_programs_and_versions(app: Headrace) -> None:
    """B096, B098: what keeps to the format runs, with fields of later days; what does not is failed by its reason."""
    _, given = echo(app, int)
    good = {"v": 1, "id": "good", "task": "take", "args": {"value": 1}, "a field of later days": {"deep": [1]}}
    bodies = {
        "good": msgspec.json.encode(good),
        "spaced": b' {"args" : {"value" : 2} , "task":"take","id":"spaced","v":1 } ',
        "msgpack": msgspec.msgpack.encode(good),
        "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94.",
        "text": b"hello",
        "nothing": b"",
        "latin-1": '{"v":1,"id":"ä","task":"take","args":{"value":1}}'.encode("latin-1"),
        "list": b"[]",
        "no version": msgspec.json.encode({"id": "no version", "task": "take", "args": {}}),
        "NaN": b'{"v":1,"id":"NaN","task":"take","args":{"value":NaN}}',  # B100
        "wrong type": b'{"v":1,"id":"wrong type","task":"take","args":{"value":"one"}}',
        "no text": b'{"v":1,"id":"no text","task":"take","args":{"value":"\xff"}}',
        "after": msgspec.json.encode({"v": 1, "id": "after", "task": "take", "args": {"value": 3}}),
    }
    runs = {"good", "spaced", "after"}
    for id, body in bodies.items():
        await put(app, id, body)
    async with working(app, concurrency=1):
        reasons = {id: (await failed(app, id)).reason for id in bodies if id not in runs}
        await await_until(lambda: given == [1, 2, 3], what="the jobs that can be read")
    assert (reasons.pop("wrong type"), reasons.pop("no text")) == ("bad arguments", "bad arguments")
    assert set(reasons.values()) == {"unreadable"}
    for id in reasons:
        info = await app.ajobs.get(id)
        assert info is not None
        assert info.body == bodies[id]
        assert info.problem.startswith("cannot decode: ")
    assert "version" in (await failed(app, "no version")).history[-1].message


async def test_a_newer_message_waits_for_a_newer_worker(app: Headrace) -> None:
    """B098: it says which version it is, costs no attempt, and the worker goes on."""
    task, given = echo(app, int)
    await put(app, "newer", msgspec.json.encode({"v": 2, "id": "newer", "task": "take", "args": {}}))
    async with working(app, concurrency=1):
        assert await ended(app, (await task.aenqueue(1)).id) is None
        await await_until(lambda: _waits(app, "newer"))
    info = await app.ajobs.get("newer")
    assert info is not None
    assert (info.reason, info.counts["attempts"]) == ("newer message", 0)
    assert "envelope of version 2" in info.problem
    assert given == [1]


async def _waits(app: Headrace, id: str) -> bool:
    info = await app.ajobs.get(id)
    return info is not None and info.state is State.SCHEDULED


# -- B101: size


async def test_large_arguments_arrive_whole_or_are_refused(app: Headrace) -> None:
    """B101: 63 KB, 65 KB, the limit to the byte; one byte more is refused. Bytes count, not characters."""
    task, given = echo(app, str)
    overhead = len((await _body(app, task, "")).decode())
    limit = codec.MAX_BODY - overhead
    async with working(app):
        for text in ("x" * 63_000, "x" * 65_000, "ü" * 100_000, "x" * limit):
            job = await task.aenqueue(text)
            await await_until(lambda: given, what="the job")
            arrived = given.pop()
            assert (len(arrived), _digest(arrived)) == (len(text), _digest(text))
            assert await ended(app, job.id) is None
    for text in ("x" * (limit + 1), "ü" * (limit // 2 + 1), "x" * 5_000_000):
        with pytest.raises(PayloadTooLarge, match="1,000,000 are allowed"):
            await task.aenqueue(text)
    assert (await app.ajobs.list("ready")).jobs == ()


async def _body(app: Headrace, task: Any, text: str) -> bytes:
    """The stored message of a call."""
    job = await task.aenqueue(text)
    info = await app.ajobs.get(job.id)
    assert info is not None
    assert info.body is not None
    await app.ajobs.cancel(job.id)
    return info.body


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_huge_errors_of_large_jobs_make_a_small_quick_list(app: Headrace) -> None:
    """B101: 5 MB of error text are cut with a mark, and a page of failed jobs carries no payload."""

    @app.task(name="fails", retry=1)
    async def fails(padding: str) -> None:
        raise ValueError("x" * 5_000_000)

    async with working(app, concurrency=5):
        jobs = await fails.aenqueue_many([{"padding": "y" * 100_000}] * 30)
        for job in jobs:
            await failed(app, job.id)
    start = time.monotonic()
    page = await app.ajobs.list()
    assert time.monotonic() - start < 0.5
    assert len(page.jobs) == 30
    assert all(info.body is None and info.args is None for info in page.jobs)
    assert all("characters cut]" in info.history[-1].message for info in page.jobs)
    assert max(len(msgspec.json.encode(info.history)) for info in page.jobs) < 20_000


# -- B102: depth


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


@pytest.mark.parametrize("make", [lambda: nested(65), lambda: nested(10_000), endless], ids=["65", "10,000", "endless"])
async def test_deep_arguments_are_refused_at_enqueue(make: Callable[[], Any], app: Headrace) -> None:
    """B102: whether they are deep or have no end."""
    task, given = echo(app, Any)
    with pytest.raises(PayloadTooLarge, match="64"):
        await task.aenqueue(make())
    async with working(app):
        assert await ended(app, (await task.aenqueue(nested(63))).id) is None
    assert given == [nested(63)]


@pytest.mark.parametrize("place", ["args", "headers", "unknown"])
async def test_a_message_nested_100_000_deep_is_failed_and_the_worker_lives(place: str, app: Headrace) -> None:
    """B102: it can be listed and looked at, too."""
    task, given = echo(app, Any)
    deep = b"[" * 100_000 + b"]" * 100_000
    body = {
        "args": b'{"v":1,"id":"deep","task":"take","args":{"value":%s}}' % deep,
        "headers": b'{"v":1,"id":"deep","task":"take","headers":%s,"args":{"value":1}}' % deep,
        "unknown": b'{"v":1,"id":"deep","task":"take","args":{"value":1},"later":%s}' % deep,
    }[place]
    await put(app, "deep", body)
    async with working(app):
        info = await failed(app, "deep")
        assert await ended(app, (await task.aenqueue(2)).id) is None
    assert given == [2]
    assert info.reason in {"unreadable", "bad arguments"}
    assert info.body == body
    assert [each.id for each in (await app.ajobs.list()).jobs] == ["deep"]


async def test_a_message_holds_its_own_arguments_and_nothing_else(app: Headrace) -> None:
    """B103, as far as there are no flows yet: 20 steps, one job and then 20 at once, each enqueued by the one before.

    No message grows with what came before it or with what follows.
    """
    sizes: list[int] = []

    @app.task(name="step", queue="steps")
    async def step(number: int) -> None:
        if number < 20:
            calls = [{"number": number + 1}] + [{"number": 99}] * (19 if number % 2 == 0 else 0)
            for job in await step.aenqueue_many(calls):
                info = await app.ajobs.get(job.id)
                sizes.append(len(info.body or b"") if info else 0)

    async with working(app, concurrency=1):
        start = time.monotonic()
        await step.aenqueue(0)
        await await_until(lambda: len(sizes) >= 210, 20, "all steps")
    assert time.monotonic() - start < 10
    assert len(sizes) == 20 + 19 * 10
    assert max(sizes) < 200


@pytest.mark.parametrize("decode_responses", [True, False])
def test_a_client_is_no_url(decode_responses: bool) -> None:
    """B104: refused when the app is made, naming what to hand over."""
    import redis

    client = redis.Redis(decode_responses=decode_responses)
    with pytest.raises(ConfigError, match="url is of type Redis: hand over the URL"):
        Headrace(client)  # type: ignore[arg-type]
    client.close()


def test_a_url_that_asks_for_decoding_is_refused(redis_url: str) -> None:
    """B104: when the app is made, before anything has been read or written."""
    with pytest.raises(ConfigError, match="decode_responses is set: remove it"):
        Headrace(f"{redis_url}?decode_responses=True")


# -- B099: what a wake-up carries


async def test_no_wake_up_is_too_large(app: Headrace) -> None:
    """B099: large arguments of any letters, a queue with the longest name, thousands of jobs: all are stored."""
    texts = [letter * length for letter in ("x", "\u00e9", "\U0001f600") for length in (7_900, 8_000, 100_000)]
    seen: list[int] = []

    @app.task(name="take", queue="q" * 200)
    async def take(text: str) -> None:
        seen.append(len(text))

    async with working(app):
        await take.aenqueue_many([{"text": text} for text in texts])
        await take.aenqueue_many([{"text": str(number)} for number in range(2_000)])
        await await_until(lambda: len(seen) == len(texts) + 2_000, what="all jobs")
    assert sorted(seen)[-9:] == sorted(map(len, texts))
