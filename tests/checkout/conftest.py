"""A shop of its own for each test, with a real mail server and a real merchant."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import select

from examples.checkout.world.mail import MailServer
from examples.checkout.world.merchant import MerchantServer

SHOP = "examples.checkout.shop"


class Shop:
    """The shop's modules as one process sees them, and the world around it."""

    def __init__(self, environment: dict[str, str], drills: Path, mail: MailServer, merchant: MerchantServer) -> None:
        self.environment = environment
        self.drills = drills
        self.mail = mail
        self.merchant = merchant

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{SHOP}.{name}")

    def stock(self, sku: str, units: int) -> None:
        models, database = self.module("models"), self.module("database").database()
        database.create_tables()
        with database.writing() as session:
            session.add(models.Item(sku=sku, stock=units))

    def left(self, sku: str) -> int:
        models, database = self.module("models"), self.module("database").database()
        with database.reading() as session:
            return int(session.get_one(models.Item, sku).stock)

    def order(self, reference: str = "click-1", sku: str = "teapot", quantity: int = 1, email: str = "a@mail.example"):
        orders = self.module("orders")
        wanted = orders.Wanted(customer_email=email, sku=sku, quantity=quantity, client_reference=reference)
        return orders.place(self.module("database").database(), wanted)

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

    def placed_ago(self, order_id: int, age: timedelta) -> None:
        """Make the order older."""
        models, database = self.module("models"), self.module("database").database()
        with database.writing() as session:
            session.get_one(models.Order, order_id).placed_at = models.utc_now() - age

    def received(self) -> list[str]:
        """The ids of everything the world was told."""
        mails = [mail.message_id.partition("@")[0] for mail in self.mail.mails]
        return mails + [webhook.id for webhook in self.merchant.webhooks]

    def in_another_process(self, call: str) -> int:
        """Call a function of the shop, such as "jobs.send_confirmation(1)", and return the process's exit code."""
        code = f"from {SHOP} import {call.partition('.')[0]}; {call}"
        return subprocess.run([sys.executable, "-c", code], env=os.environ | self.environment, check=False).returncode


@pytest.fixture
def mail() -> Iterator[MailServer]:
    server = MailServer()
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
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mail: MailServer, merchant: MerchantServer) -> Iterator[Shop]:
    """A fresh import of the shop with an environment of its own, as a new process would have it."""
    drills = tmp_path / "drills"
    drills.mkdir()
    environment = {
        "CHECKOUT_DATABASE_URL": f"sqlite:///{tmp_path}/shop.db",
        "CHECKOUT_STORE_URL": f"sqlite:///{tmp_path}/jobs.db",
        "CHECKOUT_SMTP_PORT": str(mail.port),
        "CHECKOUT_MERCHANT_URL": merchant.url,
        "CHECKOUT_DRILLS": str(drills),
        "NO_PROXY": "127.0.0.1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in sys.modules if name.startswith(SHOP)]:
        monkeypatch.delitem(sys.modules, name)
    shop = Shop(environment, drills, mail, merchant)
    yield shop
    shop.module("database").database().close()
    if jobs := sys.modules.get(f"{SHOP}.jobs"):
        jobs.app.close()
        jobs.merchant_client().close()
