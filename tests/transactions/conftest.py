"""An app on each SQL store, and a caller with a table of its own in the same database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Task
from tests.transactions.callers import KINDS, Caller
from tests.transactions.shift import Open, opened


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> str:
    """The caller's database: a URL, or a file."""
    store = KINDS[kind][0]
    if store == "sqlite":
        return str(request.getfixturevalue("sqlite_path"))
    return str(request.getfixturevalue(f"{store}_url"))


@pytest.fixture
def app(kind: str, place: str, unique_name: str) -> Iterator[Headrace]:
    app = Headrace(f"sqlite:///{Path(place)}" if KINDS[kind][0] == "sqlite" else place, name=unique_name)
    app.jobs.queues()  # makes the tables
    yield app
    app.close()


@pytest.fixture
def make_caller(kind: str, place: str, app: Headrace, unique_name: str) -> Iterator[Callable[[], Caller]]:
    made: list[Caller] = []
    table = f"{unique_name}_orders"

    def make() -> Caller:
        caller = KINDS[kind][1](place, table)
        if not made:
            caller.do(caller.execute(f"create table {table} (number integer)"))
            caller.commit()
        made.append(caller)
        return caller

    yield make
    for caller in made:
        if caller.awaited:  # the app has connections in this loop too
            caller.runner.run(app.aclose())
        caller.close()


@pytest.fixture
def caller(make_caller: Callable[[], Caller]) -> Caller:
    return make_caller()


@pytest.fixture
def task(app: Headrace) -> Task[..., Any]:
    @app.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    return mail


@pytest.fixture
def opening(kind: str, place: str, app: Headrace, caller: Caller) -> Open:
    """Opens a connection of a handler's own."""

    @app.task(name="before")
    def before() -> None:
        """Never run: it has the app look at the caller's database, once and for all."""

    caller.order(0)
    caller.enqueue(before)
    caller.rollback()
    return lambda: opened(kind, place, caller.table)
