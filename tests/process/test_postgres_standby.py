"""A hot standby: it can be read, it says that it takes no writes, and it works once it is promoted."""

import asyncio
import shutil
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from headrace import Headrace
from headrace.errors import StoreMisconfigured
from tests.servers import PostgresServer
from tests.servers.base import run_unprivileged
from tests.waiting import wait_until

Factory = Callable[[], PostgresServer]
WORDS = "is a standby and takes no writes: connect to the primary"


def app_on(server: PostgresServer) -> Any:
    app = Headrace(server.url, resend=0)

    @app.task(name="mail")
    async def mail(order_id: int) -> None:
        """Nothing to do."""

    return app, mail


@pytest.fixture
def standby(postgres_server_factory: Factory) -> PostgresServer:
    """A copy of a server that had one job and one event."""
    primary, copy = postgres_server_factory(), postgres_server_factory()
    primary.start()
    app, mail = app_on(primary)
    mail.enqueue(1)
    app.outbox.add(None, "OrderCreated", payload={})
    app.close()
    primary.stop()
    shutil.rmtree(copy.directory / "data")
    run_unprivileged(["cp", "-Rp", primary.directory / "data", copy.directory / "data"], copy.directory)
    run_unprivileged(["touch", copy.directory / "data" / "standby.signal"], copy.directory)
    return copy.start()


def test_a_standby_is_read_and_refuses_writes(standby: PostgresServer) -> None:
    app, mail = app_on(standby)
    assert app.jobs.queues()[0].ready == 1
    assert len(app.jobs.list("ready").jobs) == 1
    assert app.outbox.view().pending == 1
    for write in (
        lambda: mail.enqueue(2),
        lambda: mail.enqueue_many([{"order_id": number} for number in range(200)]),
        lambda: app.jobs.cancel(app.jobs.list("ready").jobs[0].id),
        lambda: app.outbox.add(None, "OrderCreated", payload={}),
        lambda: asyncio.run(app.worker(burst=True).run()),
        lambda: asyncio.run(app.relay(once=True).run()),
        Headrace(standby.url, name="fresh").jobs.queues,
    ):
        with pytest.raises(StoreMisconfigured, match=WORDS):
            write()
    app.close()


def test_a_standby_that_is_promoted_takes_writes(standby: PostgresServer) -> None:
    """Through the connections that were refused a moment ago, or new ones: nobody has to start anew."""
    app, mail = app_on(standby)
    with pytest.raises(StoreMisconfigured, match=WORDS):
        mail.enqueue(2)
    with psycopg.connect(standby.url, autocommit=True) as operator:
        operator.execute("select pg_promote()")
    wait_until(lambda: enqueued(mail), 20)
    assert app.jobs.queues()[0].ready == 2
    app.close()


def enqueued(mail: Any) -> bool:
    try:
        return bool(mail.enqueue(3))
    except StoreMisconfigured:
        return False
