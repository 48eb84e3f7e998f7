"""A database user who may only read and write rows: programs run, and what is missing is named."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace import Headrace
from headrace.core.schema import Upgrade
from headrace.errors import StoreMisconfigured
from headrace.migrations import latest, statements
from tests.contract.prefixes import connect

ROWS = "select, insert, update, delete"
Grant = Callable[[], None]


class Poor:
    """The URL of a user without rights, and an owner who gives some."""

    def __init__(self, kind: str, url: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.user = f"u{name}"
        self._owner = url
        self.database = url.rpartition("/")[2]
        before, _, place = url.rpartition("@")
        scheme = before.partition("://")[0]
        self.url = f"{scheme}://{self.user}:poor@{place}"
        self.owner(
            f"create role {self.user} login password 'poor'"
            if kind == "postgres"
            else f"create user {self.user} identified by 'poor'"
        )

    def owner(self, *texts: str) -> None:
        """Statements of the owner's."""
        with closing(connect(self._owner)) as connection, connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            connection.commit()

    def make(self, version: int) -> None:
        """The tables of a version, as somebody's migration makes them, and rights to their rows."""
        database = "postgresql" if self.kind == "postgres" else "mysql"
        self.owner(*statements(database, name=self.name, to_version=version))
        if self.kind == "mysql":
            self.owner(f"grant {ROWS} on {self.database}.* to {self.user}")
            return
        with closing(connect(self._owner)) as connection:
            query = "select tablename from pg_tables where tablename like %s"
            tables = [row[0] for row in connection.execute(query, (f"{self.name}\\_%",)).fetchall()]
        self.owner(f"grant {ROWS} on {', '.join(tables)} to {self.user}")

    def remove(self) -> None:
        self.owner(
            f"drop owned by {self.user}; drop role {self.user}" if self.kind == "postgres" else f"drop user {self.user}"
        )


@pytest.fixture(params=["postgres", "mysql"])
def poor(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Poor]:
    made = Poor(request.param, request.getfixturevalue(f"{request.param}_url"), unique_name)
    yield made
    made.remove()


def worked(app: Headrace) -> list[Any]:
    """A job, many, a failure, an event, a worker, a relay, an operator."""
    ran: list[Any] = []

    @app.task(name="count", unique="{n}", retry=1)
    def count(n: int) -> None:
        ran.append(n)
        assert n >= 0

    @app.on("Counted", name="counted")
    def counted(n: int) -> None:
        ran.append(f"event {n}")

    count.enqueue(-1)
    count.enqueue_many([{"n": n} for n in range(150)])
    app.outbox.add(None, "Counted", payload=7)

    async def run() -> None:
        wakeup = app.driver.wakeup("idle", ["default"])
        assert await wakeup.wait(20)
        await wakeup.aclose()
        await app.relay(once=True).run()
        await app.worker(burst=True).run()
        await app.aclose()

    asyncio.run(run())
    (failed,) = app.jobs.list("failed").jobs
    assert app.jobs.retry([failed.id]).retried == 1
    assert app.outbox.prune(0) == 1
    return ran


def test_rights_to_rows_are_enough_to_work(poor: Poor, caplog: pytest.LogCaptureFixture) -> None:
    poor.make(latest("sqlite"))
    if poor.kind == "postgres":
        with Headrace(poor.url, name=poor.name) as app, pytest.raises(StoreMisconfigured, match=r"grant .* sequences"):
            worked(app)
        poor.owner(f"grant usage on sequence {poor.name}_place to {poor.user}")
    with caplog.at_level(logging.CRITICAL), Headrace(poor.url, name=poor.name) as app:
        assert set(worked(app)) == {-1, "event 7", *range(150)}


@pytest.mark.parametrize("version", range(latest("sqlite")))
def test_what_an_upgrade_lacks_is_named(poor: Poor, version: int) -> None:
    if version:
        poor.make(version)
    elif poor.kind == "mysql":
        poor.owner(f"grant {ROWS} on {poor.database}.* to {poor.user}")
    with Headrace(poor.url, name=poor.name) as app:
        for refused in (lambda: app.driver.run(Upgrade()), app.jobs.queues):
            with pytest.raises(StoreMisconfigured, match=r"headrace schema upgrade`"):
                refused()
