"""Everyone on the stage: mail server, gateway and merchants, two web servers, workers and relays, customers."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
from sqlalchemy import select

from headrace import Headrace
from headrace.circuits.looks import CircuitInfo

from .customers import Customers
from .databases import Place
from .evidence import DeliveryRow, Evidence, FailedJob, OrderRow
from .processes import Supervised
from .shop.database import Database
from .shop.models import Delivery, Invoice, Item, Order, PollEnd, PriceList
from .world.gateway import Gateway
from .world.listener import Listener, free_port
from .world.mail import MailServer
from .world.merchant import MerchantServer
from .world.pager import Pager

GRACE = 15.0  # seconds in which every process is to stop by itself
LAST_UNIT, ANTIQUE = "last-unit", "antique-clock"
UNFINISHED = ("ready", "running", "scheduled", "parked")
HURRY = 3000  # four minutes of a schedule are 0.08 s
STORE_NAME = "checkout"
THE_APP = "examples.checkout.shop.jobs:app"


class Cast:
    """Starts and stops all, in order. The director holds the other ends of every string."""

    def __init__(self, place: Place, folder: Path, stock: dict[str, int], died: Callable[[str, int], None]) -> None:
        self.drills = folder / "drills"
        self.drills.mkdir()
        self.stock_before = stock
        self.mail, self.merchant, self.gateway = MailServer(), MerchantServer(), Gateway()
        self.pager = Pager()
        self.database = Database(place.database_url)
        outbox = place.database_url if place.store_url else None
        self.store = Headrace(place.store_url or place.database_url, name=STORE_NAME, outbox=outbox)
        ports = [free_port() for _ in range(2)]
        self.shops = [f"http://127.0.0.1:{port}" for port in ports]
        self.gateway.shops = self.shops
        self.customers = Customers(self.shops)
        self._client = httpx2.Client(timeout=5, trust_env=False)

        self.environment = self._environment_of(place)

        def supervised(name: str, *command: str) -> Supervised:
            return Supervised(name, [sys.executable, "-m", *command], self.environment, folder / f"{name}.log", died)

        serving = ("uvicorn", "examples.checkout.shop.web:web", "--port")
        self.webs = [supervised(f"web-{number}", *serving, str(port)) for number, port in enumerate(ports, 1)]
        working = ("headrace.cli", "work", "--app", THE_APP, "--queues", "imports,mail,payments,webhooks,books")
        relaying = ("headrace.cli", "outbox", "relay", "--app", THE_APP)
        self.workers = [
            supervised(f"worker-{number}", *working, "--concurrency", "12", "--grace", "5") for number in (1, 2)
        ]
        # A relay that is killed keeps what it had claimed for one lease: two seconds, for a short demo.
        self.relays = [supervised(f"relay-{number}", *relaying, "--lease", "2s") for number in (1, 2)]

    def _environment_of(self, place: Place) -> dict[str, str]:
        """Where everything is, for the processes of the shop."""
        return os.environ | {
            "HEADRACE_APP": THE_APP,
            "CHECKOUT_DATABASE_URL": place.database_url,
            "CHECKOUT_STORE_URL": place.store_url,
            "CHECKOUT_STORE_NAME": STORE_NAME,
            "CHECKOUT_SMTP_PORT": str(self.mail.port),
            "CHECKOUT_GATEWAY_URL": self.gateway.url,
            "CHECKOUT_GATEWAY_SECRET": self.gateway.secret,
            "CHECKOUT_MERCHANTS_URL": self.merchant.url,
            "CHECKOUT_MERCHANTS_SECRET": self.merchant.secret,
            "CHECKOUT_ALERTS_URL": self.pager.url,
            "CHECKOUT_PATIENCE": "1",
            "CHECKOUT_HURRY": str(HURRY),
            "CHECKOUT_DRILLS": str(self.drills.resolve()),
            "NO_PROXY": "127.0.0.1",
        }

    @property
    def world(self) -> list[Listener]:
        """All outside of the shop."""
        return [self.mail, self.gateway, self.merchant, self.pager]

    @property
    def processes(self) -> list[Supervised]:
        """All that run beside this one."""
        return [*self.webs, *self.workers, *self.relays]

    def enter(self) -> None:
        """Fill the shelves and start everything. Raises StoreError if there is no place for the jobs."""
        self.store.jobs.queues()
        self.store.outbox.view()
        self.database.create_tables()
        with self.database.writing() as session:
            session.add_all(Item(sku=sku, stock=stock) for sku, stock in self.stock_before.items())
        for server in self.world:
            server.up()
        for process in self.processes:
            process.start()

    def leave(self) -> list[str]:
        """Stop everything, and return who would not go by itself. May be called twice."""
        codes: dict[str, int | None] = {}
        deadline = time.monotonic() + GRACE

        def see_off(process: Supervised) -> None:
            codes[process.name] = process.wait(deadline)

        with ExitStack() as everyone:  # each is seen to, whatever happens with the others
            for end in (self._client.close, self.database.close, self.store.close):
                everyone.callback(end)
            for server in self.world:
                everyone.callback(server.down)
            for process in self.processes:
                process.ask_to_stop()
                everyone.callback(see_off, process)
            self.customers.leave()
        # uvicorn, once it has finished, passes the signal on to itself
        good = (0, -signal.SIGTERM, None)
        return [f"{name} stopped with exit code {code}" for name, code in codes.items() if code not in good]

    def shop_is_open(self) -> bool:
        """Do both web servers answer?"""
        try:
            return all(self._client.get(f"{shop}/health").is_success for shop in self.shops)
        except httpx2.TransportError:
            return False

    def import_price_list(self, list_id: int, currency: str = "EUR") -> str:
        """Have the shop import a price list, and return the job's id."""
        return self._job_of(f"/price-lists/{list_id}/import?currency={currency}")

    def charge_again(self, order_id: int) -> str:
        """Have the shop charge an order as its clerk would, and return the job's id."""
        return self._job_of(f"/orders/{order_id}/charge")

    def charged_before(self, job_ids: list[str]) -> bool:
        """Did these jobs end without being run, because what they are for had been done?"""
        jobs = [self.store.jobs.get(id) for id in job_ids]
        return all(job is not None and job.reason == "done before" for job in jobs)

    def merchant_left(self, sku: str) -> bool:
        """Has the shop noted that the merchant of this item wants no more webhooks?"""
        with self.database.reading() as session:
            return not session.get_one(Item, sku).merchant_listens

    def _job_of(self, path: str) -> str:
        """Post to the web server that answers, and return the id of the job that it made."""
        for shop in itertools.islice(itertools.cycle(self.shops), 200):
            try:
                return str(self._client.post(f"{shop}{path}").raise_for_status().json()["job_id"])
            except httpx2.ConnectError:  # it has been killed: the other one, or this one when it is back
                time.sleep(0.1)
        raise TimeoutError(f"no web server has answered {path} within 20 s")

    def unfinished(self) -> dict[str, int]:
        """How many jobs have not ended, by state."""
        queues = self.store.jobs.queues()
        return {state: sum(getattr(queue, state) for queue in queues) for state in UNFINISHED}

    def waiting_events(self) -> int:
        """How many events, and with Redis also jobs, are committed and not yet carried out."""
        view = self.store.outbox.view()
        return view.pending + view.parked

    def published_events(self) -> int:
        """How many events, and with Redis also jobs, the relays have carried out and not yet cleared away."""
        return self.store.outbox.view().published

    def traces(self) -> tuple[int, ...]:
        """How many orders, jobs and events there are, and units in stock: what an order that failed must not change."""
        view = self.store.outbox.view()
        with self.database.reading() as session:
            orders, units = session.query(Order).count(), sum(session.scalars(select(Item.stock)))
        return orders, units, sum(self.unfinished().values()), view.pending + view.parked + view.published

    def circuit(self) -> CircuitInfo:
        """How the circuit around the mail server stands, as the store knows it."""
        return self.store.circuits.named("smtp").look()

    def parked_mails(self) -> list[int]:
        """The mails that wait for the circuit, each as the number of its attempts so far."""
        return [job.counts["attempts"] for job in self.store.jobs.list("parked", queue="mail", limit=1000).jobs]

    def done(self) -> dict[str, int]:
        """What has been done by now, beside mails."""
        with self.database.reading() as session:
            invoices = session.query(Invoice).count()
        return {
            "orders": self.customers.orders,
            "charges": len(self.gateway.charges),
            "invoices": invoices,
            "webhooks": len(self.merchant.webhooks),
        }

    def failed(self) -> list[FailedJob]:
        """The failed jobs."""
        page = self.store.jobs.list("failed")
        return [FailedJob(job.id, job.task, job.reason, job.counts["crashes"]) for job in page.jobs]

    def evidence(self, poison: str) -> Evidence:
        """Ask everyone what they saw, while all of them are still there."""
        with self.database.reading() as session:
            orders = [_order_row(order) for order in session.scalars(select(Order).order_by(Order.id))]
            items = list(session.scalars(select(Item)))
            deliveries = [_delivery_row(row) for row in session.scalars(select(Delivery))]
            invoices = [(invoice.order_id, invoice.cents) for invoice in session.scalars(select(Invoice))]
            poll_ends = [(end.trade_no, end.hook) for end in session.scalars(select(PollEnd))]
            price_lists = [(row.list_id, row.job_id, row.currency) for row in session.scalars(select(PriceList))]
        return Evidence(
            receipts=list(self.customers.receipts),
            orders=orders,
            stock_before=self.stock_before,
            stock_after={item.sku: item.stock for item in items},
            sold={item.sku: item.sold for item in items},
            invoices=invoices,
            charges=list(self.gateway.charges),
            asked_again=self.gateway.asked_again,
            poll_ends=poll_ends,
            deliveries=deliveries,
            mails=list(self.mail.mails),
            webhooks=list(self.merchant.webhooks),
            refused=list(self.merchant.refused),
            forged=self.merchant.forged,
            left={item.sku for item in items if not item.merchant_listens},
            statuses={order.id: self.customers.status_of(order.id) for order in orders},
            unfinished=self.unfinished(),
            waiting_events=self.waiting_events(),
            failed=self.failed(),
            poison=poison,
            price_lists=price_lists,
            pages=list(self.pager.pages),
            mishaps=[],
        )


def _order_row(order: Order) -> OrderRow:
    key, money = order.idempotency_key, (order.total_cents, order.trade_no, order.payment)
    return OrderRow(order.id, key, order.sku, order.quantity, *money)


def _delivery_row(row: Delivery) -> DeliveryRow:
    job = (row.job_id, row.enqueued_us)
    return DeliveryRow(row.subscriber, row.event_id, *job, row.order_id, row.idempotency_key)


def fresh_folder(folder: Path) -> Path:
    """The folder without what an earlier performance left there. Anything else in it is not ours to remove."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in ("shop.db*", "jobs.db*", "*.log", "report.md", "report.json", "drills"):
        for old in folder.glob(pattern):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    return folder
