"""Events and inbox notes in a transaction of the caller's own."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace import ConfigError, Headrace, HeadraceError, WrongColour

pytestmark = pytest.mark.anyio


@pytest.fixture
def connection(app: Headrace, sqlite_path: Path) -> Iterator[sqlite3.Connection]:
    app.outbox.view()  # brings the tables
    connection = sqlite3.connect(sqlite_path)
    connection.row_factory = sqlite3.Row
    connection.execute("create table orders (id integer primary key)")
    connection.commit()
    yield connection
    connection.close()


def test_an_event_commits_with_the_callers_rows_or_not_at_all(app: Headrace, connection: sqlite3.Connection) -> None:
    """B116, B118: the id is known at once, the event is there after the commit only."""
    for end in (connection.rollback, connection.commit):
        connection.execute("insert into orders default values")
        id = app.outbox.add(connection, "OrderCreated", aggregate=("Order", 1), payload={"order_id": 1})
        assert len(id) == 36
        assert app.outbox.view().pending == 0
        end()
    assert app.outbox.view().pending == 1
    assert connection.execute("select count(*) from orders").fetchone()[0] == 1


def test_a_savepoint_takes_its_events_along(app: Headrace, connection: sqlite3.Connection) -> None:
    app.outbox.add(connection, "Outer", payload=1)
    connection.execute("savepoint inner_one")
    app.outbox.add(connection, "Inner", payload=2)
    connection.execute("rollback to inner_one")
    connection.commit()
    rows = connection.execute("select event_type, status from headrace_outbox").fetchall()
    assert [tuple(row) for row in rows] == [("Outer", "pending")]


def test_a_message_is_handled_once(app: Headrace, connection: sqlite3.Connection) -> None:
    seen = []
    for attempt in range(4):
        with app.inbox(connection, "message-1", consumer="billing") as first:
            seen.append(first)
        if attempt == 0:
            connection.rollback()  # what was done is undone, and so is the note
        else:
            connection.commit()
    assert seen == [True, True, False, False]
    with app.inbox(connection, "message-1", consumer="mail") as first:
        assert first


def test_an_error_in_the_body_passes_through(app: Headrace, connection: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="no"), app.inbox(connection, "m"):
        raise ValueError("no")
    connection.rollback()
    with app.inbox(connection, "m") as first:
        assert first


async def test_the_same_in_coroutines(app: Headrace) -> None:
    async with app.inbox(None, "m") as first:
        assert first
        await app.outbox.aadd(None, "Handled", payload=1)
    async with app.inbox(None, "m") as first:
        assert not first
    with pytest.raises(WrongColour), app.inbox(None, "m"):
        pass


def test_what_is_no_connection_to_the_outbox_is_refused(
    app: Headrace, make_app: Callable[..., Headrace], tmp_path: Path, connection: sqlite3.Connection
) -> None:
    with sqlite3.connect(":memory:") as other, pytest.raises(ConfigError, match=r"jobs\.db"):
        app.outbox.add(other, "X", payload=1)
    other.close()
    with pytest.raises(ConfigError, match="int"):
        app.outbox.add(1, "X", payload=1)
    empty = make_app(f"sqlite:///{tmp_path}/new.db")
    raw = sqlite3.connect(tmp_path / "new.db")
    with pytest.raises(HeadraceError):  # the tables are not there yet
        empty.outbox.add(raw, "X", payload=1)
    raw.close()
    for bad in ("", "x" * 256, "a\nb"):
        with pytest.raises(ConfigError, match="message_id"):
            app.inbox(connection, bad)
