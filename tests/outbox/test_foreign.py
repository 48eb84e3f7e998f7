"""Rows that other programs have written by plain SQL, and events that are very large: none is trouble for others."""

import asyncio
import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace, PayloadTooLarge
from headrace.core.backoff import Fixed
from headrace.outbox import Event, Message
from headrace.outbox.port import Answer
from headrace.outbox.relay import BATCH_BYTES, FIRST_BATCH
from tests.contract.prefixes import connect
from tests.outbox.relaying import Collecting

DATABASES = ("sqlite", "postgres", "mysql")
NOW = {
    "sqlite": "1000000 * strftime('%s', 'now')",
    "postgres": "now() at time zone 'utc'",
    "mysql": "utc_timestamp(6)",
}
SENT_ON = {
    "fine": {},
    "spaces around": {"payload": " 1 "},
    "one key twice": {"payload": '{"a":1,"a":2}'},
    "a nul character": {"payload": '"\\u0000"'},
    "no time": {"created_at": {"sqlite": "'soon'", "postgres": "'infinity'", "mysql": "'0000-00-00'"}},
    "a far time": {"created_at": {"sqlite": str(2**62), "postgres": "'9999-01-01'", "mysql": "'9999-01-01'"}},
    "its owner has gone": {"owner": "somebody", "due_us": 5},
    "attempts of its own": {"attempts": -5},
    "names of a space": {"aggregate_type": "", "event_type": "Odd"},
}
PARKED = {
    "headers are null": {"headers": "null"},
    "headers are a list": {"headers": "[]"},
    "a header is a number": {"headers": '{"a":1}'},
    "a header of lines": {"headers": '{"a":"b\\nc"}'},
    "headers are large": {"headers": '{"a":"%s"}' % ("x" * 1_200_000)},
    "half a character": {"payload": '"\\ud800"'},
    "deep": {"payload": "[" * 3000 + "]" * 3000},
    "large": {"payload": '"%s"' % ("x" * 1_200_000)},
    "nobody's": {"event_type": "Nobody"},
    "no job": {"event_type": "headrace.job", "payload": '{"x":1}'},
}
ONLY_TEXT = {  # what PostgreSQL refuses by the types of its columns
    "no json": {"payload": "{"},
    "nothing": {"payload": ""},
    "no number": {"payload": "NaN"},
    "no uuid": {"id": "of-a-kind"},
}


class Stranger:
    """A program that has never heard of us."""

    def __init__(self, kind: str, url: str, name: str) -> None:
        self._table = f"{name}_outbox"
        self._now = NOW[kind]
        self._kind = kind
        self._mark = "?" if kind == "sqlite" else "%s"
        self._connection: Any = sqlite3.connect(url.removeprefix("sqlite:///")) if kind == "sqlite" else connect(url)

    def do(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement.replace("{outbox}", self._table).replace("?", self._mark), values)
            rows = list(cursor.fetchall()) if cursor.description else []
        self._connection.commit()
        return rows

    def insert(self, aggregate: str, created_at: dict[str, str] | None = None, **columns: object) -> None:
        row = {"id": str(uuid.uuid4()), "event_type": "Odd", "aggregate_type": "T", "aggregate_id": aggregate}
        values = {**row, "payload": "1", "headers": "{}", **columns}
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        now = self._now if created_at is None else created_at[self._kind]
        self.do(f"insert into {{outbox}} (created_at, {names}) values ({now}, {marks})", *values.values())

    def statuses(self) -> dict[str, str]:
        return {str(row[0]): str(row[1]) for row in self.do("select aggregate_id, status from {outbox}")}

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def app(url: str, unique_name: str) -> Iterator[Headrace]:
    app = Headrace(url, name=unique_name)
    app.outbox.view()

    @app.on("Odd", "Large")
    def take(payload: object, event: Event) -> None:
        """Never run here."""

    yield app
    app.close()


@pytest.fixture
def stranger(app: Headrace, kind: str, url: str, unique_name: str) -> Iterator[Stranger]:
    stranger = Stranger(kind, url, unique_name)
    if kind == "mysql":
        stranger.do("set session sql_mode = ''")  # as programs do that were written for older servers
    yield stranger
    stranger.close()


def relay(app: Headrace, **options: Any) -> None:
    """Until nothing is due, whatever has failed once is parked."""

    async def once() -> None:
        await asyncio.wait_for(app.relay(once=True, backoff=Fixed(0.01), max_attempts=1, **options).run(), 60)
        await app.aclose()

    asyncio.run(once())


def test_each_row_is_judged_for_itself(app: Headrace, stranger: Stranger, kind: str) -> None:
    bad = PARKED | (ONLY_TEXT if kind != "postgres" else {})
    for name, columns in (SENT_ON | bad).items():
        stranger.insert(name, **columns)  # type: ignore[arg-type]  # a time of each database, or a value
        stranger.insert(f"{name}, the next one")
    relay(app)
    assert stranger.statuses() == (
        dict.fromkeys(SENT_ON, "published")
        | dict.fromkeys((f"{name}, the next one" for name in SENT_ON | bad), "published")
        | dict.fromkeys(bad, "parked")
    )
    view = app.outbox.view()
    assert (view.pending, view.parked) == (0, len(bad))


def test_a_parked_row_is_retried_and_skipped_by_whatever_id_it_has(
    app: Headrace, stranger: Stranger, kind: str
) -> None:
    upper = str(uuid.uuid4()).upper()
    ids = [upper] if kind == "postgres" else [upper, "of-a-kind"]
    for id in ids:
        stranger.insert(id, id=id, headers="[]")
    relay(app)
    assert {parked.id.upper() for parked in app.outbox.parked()} == {id.upper() for id in ids}
    for parked in app.outbox.parked():
        assert app.outbox.retry([parked.id]) == 1
    relay(app)
    for id in ids:
        assert app.outbox.skip([id]) == 1
    assert app.outbox.parked() == []
    assert app.outbox.retry(["no such id"]) == 0


def test_a_row_that_says_it_is_out_and_not_when_does_not_blind_the_operator(app: Headrace, stranger: Stranger) -> None:
    stranger.insert("a", status="published")
    stranger.insert("b")
    relay(app)
    view = app.outbox.view()
    assert view.published == 2
    assert view.lag_us is not None


def test_an_id_that_is_there_is_refused_and_harms_nothing(app: Headrace, stranger: Stranger) -> None:
    id = app.outbox.add(None, "Odd", payload=1, aggregate=("T", "ours"))
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        stranger.insert("theirs", id=id)
    stranger._connection.rollback()
    relay(app)
    assert stranger.statuses() == {"ours": "published"}


def test_the_largest_event_fits_into_the_job_of_its_subscriber(app: Headrace) -> None:
    """Whatever `add` takes must not be refused by the relay afterwards."""
    headers = {"trace": "h" * 20_000}
    room = 980_000 - 2 * len('{"trace":""}') - 40_000 - len('""')
    with pytest.raises(PayloadTooLarge, match="980,000 are allowed"):
        app.outbox.add(None, "Large", payload="x" * (room + 1), headers=headers)
    app.outbox.add(None, "Large", payload="x" * room, headers=headers)
    app.outbox.add(None, "Large", payload="x" * (980_000 - 2 * len("{}") - len('""')))
    relay(app)
    assert app.outbox.parked() == []
    assert app.jobs.queues()[0].ready == 2


class Weighing(Collecting):
    """Notes how many bytes come at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[tuple[int, int]] = []

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        self.batches.append((len(messages), sum(len(message.payload) for message in messages)))
        return [None] * len(messages)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_large_events_come_in_small_batches_and_small_ones_in_large(app: Headrace) -> None:
    """A backlog of the largest events, 500 at once, would not fit into the memory of a relay."""
    sink = Weighing()
    app.outbox.route("Big", sink)
    app.outbox.route("Small", sink)
    for _ in range(40):
        app.outbox.add(None, "Big", payload="x" * 900_000)
    for n in range(500):
        app.outbox.add(None, "Small", payload=n)
    relay(app)
    assert sum(count for count, _ in sink.batches) == 540
    first, *others = sink.batches
    assert first[0] == FIRST_BATCH
    assert max(size for _, size in others) <= BATCH_BYTES
    assert max(count for count, _ in others) > 100


class Choking(Collecting):
    """Raises where it should answer."""

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        if any(message.payload == b'"poison"' for message in messages):
            raise KeyError("order_id")
        return await super().publish(messages)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_sink_that_raises_because_of_one_message_fails_its_aggregate_alone(app: Headrace) -> None:
    sink = Choking()
    app.outbox.route("Any", sink)
    for n in range(10):
        app.outbox.add(None, "Any", payload="poison" if n == 4 else n, aggregate=("T", n % 5))
    relay(app)
    (parked,) = app.outbox.parked()
    assert (parked.aggregate_id, parked.note) == ("4", "KeyError: 'order_id'")
    assert sorted(sink.payloads) == ["0", "1", "2", "3", "5", "6", "7", "8"]
    assert app.outbox.view().pending == 1  # behind the parked one


class Miscounting:
    """A sink that does not keep to the port."""

    def __init__(self) -> None:
        self.asked = 0

    async def publish(self, messages: Sequence[Message]) -> Sequence[Answer]:
        self.asked += 1
        return []

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_sink_that_miscounts_fails_its_own_events_alone(app: Headrace) -> None:
    app.outbox.route("Miscounted", Miscounting())
    app.outbox.add(None, "Miscounted", payload=1)
    app.outbox.add(None, "Odd", payload=1)
    relay(app)
    (parked,) = app.outbox.parked()
    assert "Miscounting gave 0 answers to 1 messages" in parked.note
    assert app.outbox.view().published == 1
