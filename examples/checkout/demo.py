"""The director: opens the shop, sends customers, breaks things, and audits the outcome.

python -m examples.checkout.demo [--database sqlite] [--orders 200] [--per-second 15] [--folder build/demo]
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headrace.errors import StoreError

from .audit import audit
from .cast import LAST_UNIT, Cast, fresh_folder
from .customers import Purchase, assortment
from .databases import KINDS, NoServer, Place, place
from .report import Report, figures
from .shop.price_lists import CORRUPT
from .stage import Figures, Stage

KILL_A_RELAY_EVERY = 3.0  # seconds
SKUS = ["espresso-cup", "teapot", "kettle", "coffee-grinder"]


class CannotGoOn(Exception):
    """A process does not run at all."""


class Director:
    """One performance. Every scene is a method; `perform` is the script."""

    def __init__(self, place: Place, orders: int, per_second: float, folder: Path) -> None:
        self.place = place
        self.wanted = orders
        self.per_second = per_second
        self.folder = folder
        self.deaths = 0
        self.broken = False  # see CannotGoOn
        self.known = (dict.fromkeys(("ready", "running", "scheduled"), 0), 0, 0)
        self.mishaps: list[str] = []
        self.poison = ""
        self.relays_may_live = threading.Event()
        self.cast = Cast(place, folder, dict.fromkeys(SKUS, orders) | {LAST_UNIT: 1}, self.process_died)
        self.stage = Stage(self.figures)

    def run(self) -> Report:
        """Perform, audit, and leave no process behind, whatever happens."""
        try:
            with self.stage:
                self.cast.enter()
                with suppress(CannotGoOn):
                    self.perform()
                evidence = self.cast.evidence(self.poison)
                self.stage.note("the curtain falls: every process is asked to stop")
                self.mishaps += self.cast.leave()
        finally:
            self.relays_may_live.set()
            self.cast.leave()
        findings = audit(replace(evidence, mishaps=self.mishaps))
        return Report(
            ok=all(finding.ok for finding in findings),
            seconds=self.stage.second,
            database=self.place.kind,
            findings=findings,
            figures=figures(evidence, self.deaths),
            timeline=self.stage.timeline,
        )

    def perform(self) -> None:
        """The script."""
        self.wait_for("the shop opens", self.cast.shop_is_open, 20)
        self.stage.note(f"{self.wanted} orders begin to arrive, {self.per_second:g} a second")
        self.cast.customers.arrive(assortment(self.wanted, SKUS), self.per_second)
        self.relays_are_killed_all_the_time()
        self.after(0.10, self.mail_outage)
        self.after(0.35, self.worker_is_killed_at_work)
        self.after(0.40, self.poison_job)
        self.after(0.45, self.web_server_is_killed)
        self.after(0.55, self.killed_before_sending)
        self.after(0.65, self.killed_between_statements)
        self.after(0.70, self.merchant_outage)
        self.after(0.80, self.killed_after_sending)
        self.after(0.90, self.killed_at_booking)
        self.wait_for("all customers have ordered", lambda: not self.cast.customers.busy, 60)
        self.double_click()
        self.two_buyers_of_the_last_unit()
        self.relays_may_live.set()
        self.all_is_quiet()
        self.wait_for("both web servers are there", self.cast.shop_is_open, 20)
        self.killed_before_commit()
        self.killed_after_commit()
        self.all_is_quiet()
        self.wait_for("the last order can be looked at", self.cast.shop_is_open, 20)

    def relays_are_killed_all_the_time(self) -> None:
        """What they have published and not yet marked comes again. It must not come twice."""
        self.stage.note(f"from now on a relay is killed every {KILL_A_RELAY_EVERY:g} s")

        def kill_one_after_the_other() -> None:
            turns = itertools.cycle(self.cast.relays)
            while not self.relays_may_live.wait(KILL_A_RELAY_EVERY):
                next(turns).kill()

        threading.Thread(target=kill_one_after_the_other, daemon=True).start()

    def mail_outage(self) -> None:
        """Nothing is mailed for a while, and nothing is lost."""
        self.stage.note("the mail server goes down; orders go on")
        self.cast.mail.down()
        time.sleep(3)
        self.cast.mail.up()
        self.stage.note("the mail server is back")

    def web_server_is_killed(self) -> None:
        """Wherever it is: who got no answer tries again, at the other one."""
        self.stage.note("a web server is killed in the middle of its orders")
        self.cast.webs[0].kill()

    def killed_between_statements(self) -> None:
        """The order is written, its jobs are not, and nothing is committed."""
        self.stage.note("a web server will die between two statements of an order")
        self.drill("order.between_statements")

    def worker_is_killed_at_work(self) -> None:
        """SIGKILL, while it waits for the mail server's answer."""
        self.cast.mail.delay = 0.4
        before = len(self.cast.mail.mails)
        self.cast.customers.buy(Purchase.of(SKUS[2]))
        self.wait_for("a mail is on its way", lambda: len(self.cast.mail.mails) > before, 10)
        self.stage.note("worker-1 is killed in the middle of its jobs")
        self.cast.workers[0].kill()
        self.cast.mail.delay = 0.0

    def poison_job(self) -> None:
        """A job that kills whoever runs it, among many that do no harm."""
        self.stage.note("a corrupt price list comes in: whoever imports it crashes")
        self.poison = self.cast.import_price_list(CORRUPT)
        for list_id in range(3):
            self.cast.import_price_list(list_id)

    def killed_before_sending(self) -> None:
        """The row is there, the mail is not: the next run must send it."""
        self.stage.note("workers will die between noting down a mail, or a webhook, and sending it")
        self.drill("confirmation_email.after_insert")
        self.drill("merchant_webhook.after_insert")

    def killed_after_sending(self) -> None:
        """The mail is out, nobody has noted it down: it may come twice, under one Message-ID."""
        self.stage.note("a worker will die between sending a mail and noting it down")
        self.drill("confirmation_email.after_send")

    def killed_at_booking(self) -> None:
        """Payment and end of the job commit together: before it both are undone, after it no run follows."""
        self.stage.note("workers will die just before and just after they commit a payment")
        self.drill("payment.before_commit")
        self.drill("payment.after_commit")

    def merchant_outage(self) -> None:
        """The merchant answers, but with 503."""
        self.stage.note("the merchant's server answers 503 to everything")
        self.cast.merchant.failing = True
        time.sleep(2)
        self.cast.merchant.failing = False
        self.stage.note("the merchant's server works again")

    def double_click(self) -> None:
        """Two clicks, one order."""
        purchase = Purchase.of(SKUS[0])
        answers = self.cast.customers.buy_at_once(purchase, purchase)
        ids = {answer.order_id for answer in answers if answer}
        one = len(ids) == 1 and None not in ids
        self.expect("a double click makes one order", happened=one, otherwise=f"orders {ids}")

    def two_buyers_of_the_last_unit(self) -> None:
        """One is glad, the other gets a clear answer."""
        answers = self.cast.customers.buy_at_once(Purchase.of(LAST_UNIT), Purchase.of(LAST_UNIT))
        statuses = sorted(answer.status for answer in answers if answer)
        one = statuses == [201, 409]
        self.expect("of two buyers one gets the last unit, one a 409", happened=one, otherwise=f"{statuses}")

    def killed_before_commit(self) -> None:
        """Everything is written and nothing is committed, and the customer does not try again."""
        self.stage.note("a web server dies just before it commits an order, and the customer walks away")
        before = self.cast.traces()
        self.customer_walks_away(self.cast.shops[0], "order.before_commit")
        after = self.cast.traces()
        self.expect(
            "no order, job or event of it is there, and its units are", happened=after == before, otherwise=f"{after}"
        )

    def killed_after_commit(self) -> None:
        """The order is committed and its event waits, while no relay runs; nor does the customer try again."""
        self.stage.note("both relays are down; a web server dies just after a commit, and the customer walks away")
        for relay in self.cast.relays:
            relay.hold_down()
        self.wait_for("no relay runs", lambda: not any(relay.pid for relay in self.cast.relays), 5)
        self.customer_walks_away(self.cast.shops[1], "order.after_commit")
        waiting = self.cast.waiting_events()
        self.expect("the event waits in the database", happened=waiting > 0, otherwise="it does not")
        for relay in self.cast.relays:
            relay.let_up()

    def customer_walks_away(self, shop: str, point: str) -> None:
        """Buy at a web server that dies at `point`, and do not press the button again."""
        drill = self.cast.drills / point
        drill.touch()
        receipt = self.cast.customers.buy(Purchase.of(SKUS[1]), patience=0, at=shop)
        alone = receipt is None and not drill.exists()
        self.expect("that customer got no answer", happened=alone, otherwise="an answer came, or the server was away")

    def all_is_quiet(self) -> None:
        """Every queue and the outbox run empty, in bounded time."""
        self.wait_for("every event is out", lambda: not self.cast.waiting_events(), 30)
        self.wait_for("every job has ended", lambda: not any(self.cast.unfinished().values()), 45)

    def until(self, happened: Callable[[], bool], timeout: float) -> bool:
        """Wait until something has happened; False if it has not within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not (done := happened()) and time.monotonic() < deadline:
            if self.broken:
                raise CannotGoOn
            time.sleep(0.05)
        return done

    def after(self, share: float, scene: Callable[[], None]) -> None:
        """Play a scene once this share of the orders is in."""
        orders = round(share * self.wanted)
        if self.until(lambda: self.cast.customers.orders >= orders, 60):
            scene()
        else:
            self.expect(
                scene.__name__, happened=False, otherwise=f"the scene was left out, {orders} orders never came in"
            )

    def drill(self, point: str) -> None:
        """Have the next process that reaches `point` die there, and place an order, so that one will reach it."""
        drill = self.cast.drills / point
        drill.touch()
        self.cast.customers.buy(Purchase.of(SKUS[2]))
        self.wait_for(f"one has died at {point}", lambda: not drill.exists(), 30)

    def wait_for(self, what: str, happened: Callable[[], bool], timeout: float) -> bool:
        """Wait, but not for ever: what does not happen is a mishap, and the audit will say so."""
        return self.expect(what, happened=self.until(happened, timeout), otherwise=f"not within {timeout:g} s")

    def expect(self, what: str, *, happened: bool, otherwise: str) -> bool:
        """Note what happened, or that it did not."""
        self.stage.note(what if happened else f"OFF: {what}: {otherwise}")
        if not happened:
            self.mishaps.append(f"{what}: {otherwise}")
        return happened

    def process_died(self, name: str, code: int) -> None:
        """Called by the supervisor, which then starts another."""
        self.deaths += 1
        if code >= 0:  # no scene ends a process like this
            self.broken = True
            log = self.folder / f"{name}.log"
            self.expect(
                f"{name} runs", happened=False, otherwise=f"it ended by itself with exit code {code}, see {log}"
            )
            return
        if not name.startswith("relay"):  # of which so many die
            self.stage.note(f"{name} died ({signal.Signals(-code).name}), another takes its place")

    def waiting(self) -> tuple[dict[str, int], int, int]:
        """Unfinished jobs, failed jobs, events; the last known ones while the store does not answer."""
        with suppress(StoreError):
            self.known = self.cast.unfinished(), len(self.cast.failed()), self.cast.waiting_events()
        return self.known

    def figures(self) -> Figures:
        """What the bottom line of the screen shows."""
        jobs, failed, events = self.waiting()
        return {
            "orders": str(self.cast.customers.orders),
            "mails": str(len(self.cast.mail.mails)),
            "webhooks": str(len(self.cast.merchant.webhooks)),
            "events waiting": str(events),
            "jobs waiting": str(jobs["ready"] + jobs["scheduled"]),
            "running": str(jobs["running"]),
            "failed": str(failed),
            "processes died": str(self.deaths),
        }


def main() -> int:
    """Run the demo. Exit code 0: every claim holds; 1: one is off; 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m examples.checkout.demo", description="The checkout marketplace.")
    parser.add_argument(
        "--database",
        choices=KINDS,
        default="sqlite",
        help="where orders and jobs are; redis: the jobs (default sqlite)",
    )
    parser.add_argument("--orders", type=int, default=200, help="how many orders arrive (default 200)")
    parser.add_argument("--per-second", type=float, default=15, help="how fast (default 15)")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/demo"), help="for databases, logs, report (default build/demo)"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave as on Ctrl-C, and take every child along
    try:
        with place(options.database, fresh_folder(options.folder)) as found:
            report = Director(found, options.orders, options.per_second, options.folder).run()
    except KeyboardInterrupt:
        print("interrupted; every process is stopped", file=sys.stderr)
        return 130
    except NoServer as error:
        print(error, file=sys.stderr)
        return 1
    except StoreError as error:
        print(f"the demo cannot go on without its job store: {error}", file=sys.stderr)
        return 1
    readable = report.write(options.folder)
    print(f"\n{report.table()}\n")
    print(f"{'All claims hold' if report.ok else 'Something is OFF'} after {report.seconds:.0f} s. Report: {readable}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
