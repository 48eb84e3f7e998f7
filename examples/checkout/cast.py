"""Everyone on the stage: the mail server, the merchant, the shop's web server, two workers, the customers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
from sqlalchemy import select

from headrace import Headrace

from .audit import Evidence, FailedJob, OrderRow
from .customers import Customers
from .processes import Supervised
from .shop.database import Database
from .shop.models import Item, Order
from .world.listener import free_port
from .world.mail import MailServer
from .world.merchant import MerchantServer

GRACE = 15.0  # seconds in which every process is to stop by itself
LAST_UNIT = "last-unit"


class Cast:
    """Starts and stops all, in order. The director holds the other ends of every string."""

    def __init__(self, folder: Path, stock: dict[str, int], died: Callable[[str, int], None]) -> None:
        self.drills = fresh_folder(folder) / "drills"
        self.drills.mkdir()
        self.stock_before = stock
        self.mail, self.merchant = MailServer(), MerchantServer()
        self.web_port = free_port()
        self.database = Database(f"sqlite:///{folder.resolve()}/shop.db")
        self.store_url = store_url(folder)
        store_name = f"checkout_{uuid.uuid4().hex[:8]}"  # a shared store may hold an earlier performance
        self.store = Headrace(self.store_url, name=store_name)
        self.customers = Customers(self.web_url)

        environment = os.environ | {
            "CHECKOUT_DATABASE_URL": self.database.engine.url.render_as_string(hide_password=False),
            "CHECKOUT_STORE_URL": self.store_url,
            "CHECKOUT_STORE_NAME": store_name,
            "CHECKOUT_SMTP_PORT": str(self.mail.port),
            "CHECKOUT_MERCHANT_URL": self.merchant.url,
            "CHECKOUT_DRILLS": str(self.drills.resolve()),
            "NO_PROXY": "127.0.0.1",
        }

        def supervised(name: str, *command: str) -> Supervised:
            return Supervised(name, [sys.executable, "-m", *command], environment, folder / f"{name}.log", died)

        self.web = supervised("web", "uvicorn", "examples.checkout.shop.web:web", "--port", str(self.web_port))
        self.workers = [
            supervised(
                f"worker-{number}",
                *("headrace.cli", "work", "--app", "examples.checkout.shop.jobs:app"),
                *("--queues", "mail,webhooks,imports", "--concurrency", "8", "--grace", "5"),
            )
            for number in (1, 2)
        ]

    @property
    def web_url(self) -> str:
        """Where the shop is."""
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def processes(self) -> list[Supervised]:
        """All that run beside this one."""
        return [self.web, *self.workers]

    def enter(self) -> None:
        """Fill the shelves and start everything. Raises StoreError if there is no place for the jobs."""
        self.store.jobs.queues()
        self.database.create_tables()
        with self.database.writing() as session:
            session.add_all(Item(sku=sku, stock=stock) for sku, stock in self.stock_before.items())
        self.mail.up()
        self.merchant.up()
        for process in self.processes:
            process.start()

    def leave(self) -> list[str]:
        """Stop everything, and return who would not go by itself. May be called twice."""
        codes: dict[str, int | None] = {}
        deadline = time.monotonic() + GRACE

        def see_off(process: Supervised) -> None:
            codes[process.name] = process.wait(deadline)

        with ExitStack() as everyone:  # each is seen to, whatever happens with the others
            for end in (self.database.close, self.store.close, self.merchant.down, self.mail.down):
                everyone.callback(end)
            for process in self.processes:
                process.ask_to_stop()
                everyone.callback(see_off, process)
            self.customers.leave()
        # uvicorn, once it has finished, passes the signal on to itself
        good = (0, -signal.SIGTERM, None)
        return [f"{name} stopped with exit code {code}" for name, code in codes.items() if code not in good]

    def shop_is_open(self) -> bool:
        """Does the web server answer?"""
        try:
            return httpx2.get(f"{self.web_url}/health", timeout=1, trust_env=False).is_success
        except httpx2.TransportError:
            return False

    def import_price_list(self, list_id: int) -> str:
        """Have the shop import a price list, and return the job's id."""
        answer = httpx2.post(f"{self.web_url}/price-lists/{list_id}/import", timeout=5, trust_env=False)
        return str(answer.raise_for_status().json()["job_id"])

    def unfinished(self) -> dict[str, int]:
        """How many jobs have not ended, by state."""
        queues = self.store.jobs.queues()
        return {state: sum(getattr(queue, state) for queue in queues) for state in ("ready", "running", "scheduled")}

    def failed(self) -> list[FailedJob]:
        """The failed jobs."""
        page = self.store.jobs.list("failed")
        return [FailedJob(job.id, job.task, job.reason, job.counts["crashes"]) for job in page.jobs]

    def evidence(self, poison: str) -> Evidence:
        """Ask everyone what they saw, while all of them are still there."""
        with self.database.reading() as session:
            orders = [
                OrderRow(order.id, order.client_reference, order.sku, order.quantity)
                for order in session.scalars(select(Order).order_by(Order.id))
            ]
            stock = {item.sku: item.stock for item in session.scalars(select(Item))}
        return Evidence(
            receipts=list(self.customers.receipts),
            orders=orders,
            stock_before=self.stock_before,
            stock_after=stock,
            mails=list(self.mail.mails),
            webhooks=list(self.merchant.webhooks),
            statuses={order.id: self.customers.status_of(order.id) for order in orders},
            unfinished=self.unfinished(),
            failed=self.failed(),
            poison=poison,
            mishaps=[],
        )


def fresh_folder(folder: Path) -> Path:
    """The folder without what an earlier performance left there. Anything else in it is not ours to remove."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("shop.db*", "jobs.db*", "*.log", "report.md", "report.json", "drills"):
        for old in folder.glob(pattern):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    return folder


def store_url(folder: Path) -> str:
    """Where the jobs live: CHECKOUT_STORE_URL, or a local Redis with STORE=redis, or a new SQLite file."""
    if url := os.environ.get("CHECKOUT_STORE_URL"):
        return url
    if os.environ.get("STORE") == "redis":
        return "redis://127.0.0.1:6379/0"
    return f"sqlite:///{folder.resolve()}/jobs.db"
