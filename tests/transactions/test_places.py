"""A connection that is led to other tables of the same names: nothing is written there."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace, Task
from headrace.errors import ConfigError
from tests.contract.prefixes import connect
from tests.transactions.callers import (
    AlchemyAsyncSession,
    AlchemySession,
    Asyncmy,
    AsyncPsycopg,
    Caller,
    Psycopg,
    PyMySQL,
    through,
)

CALLERS: dict[str, tuple[str, Callable[[str], Caller]]] = {
    "psycopg": ("postgres", lambda url: Psycopg(url, "orders")),
    "psycopg-async": ("postgres", lambda url: AsyncPsycopg(url, "orders")),
    "session-psycopg": ("postgres", lambda url: AlchemySession(through(url, "postgresql+psycopg"), "orders")),
    "session-psycopg-async": (
        "postgres",
        lambda url: AlchemyAsyncSession(through(url, "postgresql+psycopg"), "orders"),
    ),
    "pymysql": ("mysql", lambda url: PyMySQL(url, "orders")),
    "asyncmy": ("mysql", lambda url: Asyncmy(url, "orders")),
    "session-pymysql": ("mysql", lambda url: AlchemySession(through(url, "mysql+pymysql"), "orders")),
}
LEAD = {"postgres": "set search_path = {}", "mysql": "use {}"}
MAKE = {"postgres": "create schema {}", "mysql": "create database {}"}
DROP = {"postgres": "drop schema {} cascade", "mysql": "drop database {}"}


class Places:
    """Two installations of one name on one server, and a caller that may go to either."""

    def __init__(self, kind: str, url: str, name: str, make_caller: Callable[[str], Caller]) -> None:
        self.kind = kind
        self.url = url
        self.names = [f"{name}_one", f"{name}_two"]
        self.change(MAKE)
        self.one, self.two = (Headrace(self.at(place), name="jobs") for place in self.names)
        self.one.jobs.queues()
        self.two.jobs.queues()
        self.caller = make_caller(url)

    def at(self, place: str) -> str:
        """The address of one of them."""
        if self.kind == "postgres":
            return f"{self.url}?options=-csearch_path%3D{place}"
        return f"{self.url.rpartition('/')[0]}/{place}"

    def change(self, statement: dict[str, str]) -> None:
        with closing(connect(self.url)) as connection, connection.cursor() as cursor:
            for place in self.names:
                cursor.execute(statement[self.kind].format(place))
            connection.commit()

    def lead(self, place: str) -> None:
        self.caller.do(self.caller.execute(LEAD[self.kind].format(place)))

    def close(self) -> None:
        for app in (self.one, self.two):
            if self.caller.awaited:
                self.caller.runner.run(app.aclose())
            app.close()
        self.caller.close()
        self.change(DROP)


@pytest.fixture(params=CALLERS)
def places(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Places]:
    kind, make_caller = CALLERS[request.param]
    made = Places(kind, request.getfixturevalue(f"{kind}_url"), unique_name, make_caller)
    yield made
    made.close()


@pytest.fixture
def task(places: Places) -> Task[..., Any]:
    @places.one.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    return mail


def waiting(app: Headrace) -> int:
    return len(app.jobs.list("ready").jobs)


def test_a_connection_that_is_led_elsewhere_is_refused(places: Places, task: Task[..., Any]) -> None:
    one, two = places.names
    caller = places.caller
    places.lead(one)
    caller.enqueue(task, 1)
    caller.commit()
    assert waiting(places.one) == 1
    places.lead(two)
    with pytest.raises(ConfigError, match="is not one of"):
        caller.enqueue(task, 2)
    caller.commit()
    places.lead(one)
    caller.enqueue(task, 3)
    caller.commit()
    assert (waiting(places.one), waiting(places.two)) == (2, 0)


def test_events_are_not_written_elsewhere(places: Places) -> None:
    one, two = places.names
    caller = places.caller

    def add() -> None:
        box = places.one.outbox
        if caller.awaited:
            caller.runner.run(box.aadd(caller.handle, "Happened", payload=1))
        else:
            box.add(caller.handle, "Happened", payload=1)

    places.lead(one)
    add()
    places.lead(two)
    with pytest.raises(ConfigError, match="is not one of"):
        add()
    caller.commit()
    assert (places.one.outbox.view().pending, places.two.outbox.view().pending) == (1, 0)


@pytest.mark.parametrize("places", ["psycopg"], indirect=True)
def test_tables_in_a_schema_of_their_own_are_worked_on(places: Places, task: Task[..., Any]) -> None:
    """`?options=-csearch_path%3D...`, for producers, hints, workers and relays."""
    ran: list[int] = []

    @places.one.task(name="run")
    async def run(n: int) -> None:
        ran.append(n)

    @places.one.on("Happened", name="happened")
    async def happened(n: int) -> None:
        ran.append(n)

    run.enqueue_many([{"n": n} for n in range(200)])
    places.one.outbox.add(None, "Happened", payload=200)

    async def work() -> None:
        wakeup = places.one.driver.wakeup("idle", ["default"])
        assert await wakeup.wait(20)
        await run.aenqueue(201)
        assert await wakeup.wait(20)
        await wakeup.aclose()
        await places.one.relay(once=True).run()
        await places.one.worker(burst=True).run()
        await places.one.aclose()

    asyncio.run(work())
    assert sorted(ran) == list(range(202))
    assert waiting(places.two) == 0
