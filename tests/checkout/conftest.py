"""A shop of its own for each test, with a real mail server and a real merchant, on each of the databases."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.engine import make_url

from examples.checkout.world.gateway import Gateway
from examples.checkout.world.mail import MailServer
from examples.checkout.world.merchant import MerchantServer
from tests.conftest import missing

SHOP = "examples.checkout.shop"
ELSEWHERE = f"""
import itertools
from {SHOP} import database, drills, jobs, merchants, orders, payments

def place(key):
    with orders.placing(database.database(), orders.Wanted("a@mail.example", "teapot", 1), key):
        pass

"""
# The page itself, in another process
BUY_ELSEWHERE = """
from fastapi.testclient import TestClient
from examples.checkout.shop import web
order = {"customer_email": "a@mail.example", "sku": "teapot", "quantity": 1}
TestClient(web.web).post("/orders", json=order, headers={"Idempotency-Key": "click-1"})
"""
KILLED = -9
DATABASES = ("sqlite", "postgres", "mysql")


class Shop:
    """The shop's modules as one process sees them, and the world around it."""

    def __init__(
        self, environment: dict[str, str], drills: Path, mail: MailServer, gateway: Gateway, merchant: MerchantServer
    ) -> None:
        self.environment = environment
        self.drills = drills
        self.mail = mail
        self.gateway = gateway
        self.merchant = merchant

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{SHOP}.{name}")

    def stock(self, sku: str, units: int) -> None:
        self.module("jobs").prepare()
        models, database = self.module("models"), self.module("database").database()
        with database.writing() as session:
            session.add(models.Item(sku=sku, stock=units))

    def add(self, sku: str, units: int) -> None:
        models, database = self.module("models"), self.module("database").database()
        with database.writing() as session:
            session.get_one(models.Item, sku).stock += units

    def left(self, sku: str) -> int:
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return int(session.get_one(models.Item, sku).stock)

    def sold(self, sku: str) -> int:
        """As the statistics have counted it."""
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return int(session.get_one(models.Item, sku).sold)

    def invoices(self) -> list[tuple[int, int]]:
        """The ledger: order and cents."""
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return [(invoice.order_id, invoice.cents) for invoice in session.scalars(select(models.Invoice))]

    def payment(self, order_id: int) -> str:
        """What the order says of it."""
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return str(session.get_one(models.Order, order_id).payment)

    def poll_ends(self) -> list[tuple[str, str]]:
        """The hooks of the polls: trade number, and which one was called."""
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return [(end.trade_no, end.hook) for end in session.scalars(select(models.PollEnd))]

    def merchant_listens(self, sku: str) -> bool:
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return bool(session.get_one(models.Item, sku).merchant_listens)

    def orders(self) -> int:
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return int(session.scalar(select(func.count(models.Order.id))))

    def order(self, key: str = "click-1", sku: str = "teapot", quantity: int = 1, email: str = "a@mail.example") -> int:
        """Place one, as the page does for a key that is new, and return its id."""
        orders = self.module("orders")
        wanted = orders.Wanted(customer_email=email, sku=sku, quantity=quantity)
        with orders.placing(self.module("database").database(), wanted, key) as (_, order):
            return int(order.id)

    def order_in_another_process(self) -> int:
        """The same order, and the process's exit code."""
        return self.in_another_process("place('click-1')")

    @contextmanager
    def ordering_in_another_process(self, key: str) -> Iterator[subprocess.Popen[bytes]]:
        """Order after order, until the process is killed, or the block ends."""
        code = f"[place(f'{key}-{{n}}') for n in itertools.count()]"
        process = subprocess.Popen([sys.executable, "-c", ELSEWHERE + code], env=os.environ | self.environment)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def waiting(self) -> set[str]:
        """The ids of the jobs that wait."""
        return {job.id for job in self.module("jobs").app.jobs.list("ready").jobs}

    def queued(self) -> dict[str, int]:
        """How many jobs wait in each queue."""
        return {queue.name: queue.ready for queue in self.module("jobs").app.jobs.queues()}

    def events(self) -> int:
        """How many events wait for a relay."""
        return int(self.module("jobs").app.outbox.view().pending)

    def notifications(self, order_id: int) -> dict[str, bool]:
        """The rows of an order: type, and whether it was sent."""
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            rows = session.scalars(select(models.Notification).where(models.Notification.order_id == order_id))
            return {row.type: row.sent_at is not None for row in rows}

    def confirmed(self, order_id: int) -> bool:
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return session.get_one(models.Order, order_id).confirmation_email_sent_at is not None

    def received(self) -> list[str]:
        """The ids of everything the world was told."""
        mails = [mail.message_id.partition("@")[0] for mail in self.mail.mails]
        return mails + [webhook.id for webhook in self.merchant.webhooks]

    def in_another_process(self, call: str) -> int:
        """Call a function of the shop, such as "jobs.send_confirmation(1)", and return the process's exit code."""
        command = [sys.executable, "-c", ELSEWHERE + call]
        return subprocess.run(command, env=os.environ | self.environment, check=False).returncode


def buy(client: TestClient, key: str = "click-1", **changes: object) -> httpx2.Response:
    """Press the button."""
    order = {"customer_email": "a@mail.example", "sku": "teapot", "quantity": 1}
    return client.post("/orders", json=order | changes, headers={"Idempotency-Key": key})


@contextmanager
def worker(shop: Shop) -> Iterator[None]:
    """A worker in a thread of its own, until the block ends."""
    app = shop.module("jobs").app
    working = app.worker(concurrency=4, grace=5)

    async def work() -> None:
        async with app:  # closes what this loop has opened
            await working.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield
    finally:
        working.stop()
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer()
    server.up()
    yield server
    server.down()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    server = Gateway()
    server.up()
    yield server
    server.down()


@pytest.fixture
def merchant() -> Iterator[MerchantServer]:
    server = MerchantServer()
    server.up()
    yield server
    server.down()


@pytest.fixture
def world(mail: MailServer, gateway: Gateway, merchant: MerchantServer) -> tuple[MailServer, Gateway, MerchantServer]:
    """All that is outside of the shop."""
    return mail, gateway, merchant


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path, unique_name: str) -> Iterator[str]:
    """A database that nobody has used before."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/shop.db"
        return
    with a_database(request.getfixturevalue(f"{request.param}_url"), unique_name) as url:
        yield url


@contextmanager
def a_database(server: str, name: str) -> Iterator[str]:
    """One on a server that others use too, dropped at the end."""
    library = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}[make_url(server).drivername]
    engine = create_engine(make_url(server).set(drivername=library), isolation_level="AUTOCOMMIT")
    force = " with (force)" if "postgresql" in library else ""
    with engine.connect() as connection:
        connection.execute(text(f"create database {name}"))
    yield make_url(server).set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"drop database {name}{force}"))
    engine.dispose()


@pytest.fixture
def elsewhere() -> dict[str, str]:
    """Settings of a shop whose jobs are not in its database."""
    return {}


@pytest.fixture
def shop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    world: tuple[MailServer, Gateway, MerchantServer],
    database_url: str,
    elsewhere: dict[str, str],
) -> Iterator[Shop]:
    """A fresh import of the shop with an environment of its own, as a new process would have it."""
    mail, gateway, merchant = world
    drills = tmp_path / "drills"
    drills.mkdir()
    environment = {
        "CHECKOUT_DATABASE_URL": database_url,
        "CHECKOUT_SMTP_PORT": str(mail.port),
        "CHECKOUT_GATEWAY_URL": gateway.url,
        "CHECKOUT_GATEWAY_SECRET": gateway.secret,
        "CHECKOUT_MERCHANTS_URL": merchant.url,
        "CHECKOUT_MERCHANTS_SECRET": merchant.secret,
        "CHECKOUT_PATIENCE": "1",
        "CHECKOUT_HURRY": "12000",
        "CHECKOUT_DRILLS": str(drills),
        "NO_PROXY": "127.0.0.1",
    } | elsewhere
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in sys.modules if name.startswith(SHOP)]:
        monkeypatch.delitem(sys.modules, name)
    shop = Shop(environment, drills, mail, gateway, merchant)
    yield shop
    shop.module("database").database().close()
    if jobs := sys.modules.get(f"{SHOP}.jobs"):
        jobs.app.close()
        shop.module("gateway").client().close()


@pytest.fixture
def need(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Skip where the server that the demo would start is not on this machine, or fail where all are required."""
    from headrace.testing.servers import mariadb, postgres, redis

    find = {
        "postgres": postgres.find_postgres_binaries,
        "mysql": mariadb.find_mariadb,
        "redis": redis.find_redis_binary,
    }

    def check(database: str) -> None:
        if database in find and find[database]() is None:
            missing(f"no server for the demo on {database}")

    return check
