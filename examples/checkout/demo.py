"""The marketplace: opens the shop, sends customers, breaks things, and audits the outcome.

python -m examples.checkout.demo [--database sqlite] [--orders 200] [--per-second 15] [--folder build/demo]
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import threading
import time
from pathlib import Path

from headrace.errors import StoreError

from .cast import ANTIQUE, LAST_UNIT, fresh_folder
from .customers import Purchase, assortment
from .databases import KINDS, NoServer, place
from .director import SKUS
from .morning import MorningScenes
from .outage import OutageScenes

KILL_A_RELAY_EVERY = 3.0  # seconds


class Marketplace(OutageScenes, MorningScenes):
    """The whole evening. Every scene is a method; `perform` is the script."""

    def perform(self) -> None:
        """The script."""
        self.evening()
        self.double_click()
        self.two_buyers_of_the_last_unit()
        self.merchant_leaves()
        self.spoilt_price_lists()
        self.mails_are_out()
        self.relays_may_live.set()
        self.all_is_quiet()
        self.wait_for("both web servers are there", self.cast.shop_is_open, 20)
        self.killed_before_commit()
        self.killed_after_commit()
        self.operator_repairs()
        self.all_is_quiet()
        self.wait_for("the last order can be looked at", self.cast.shop_is_open, 20)

    def evening(self) -> None:
        """Customers come and go, and everything fails once."""
        self.wait_for("the shop opens", self.cast.shop_is_open, 20)
        self.stage.note(f"{self.wanted} orders begin to arrive, {self.per_second:g} a second")
        self.cast.customers.arrive(assortment(self.wanted, SKUS), self.per_second)
        self.relays_are_killed_all_the_time()
        self.after(0.05, self.gateway_forgets)
        self.after(0.10, self.mail_outage)
        self.after(0.25, self.gateway_loses_its_answers)
        self.after(0.35, self.worker_is_killed_at_work)
        self.after(0.40, self.poison_job)
        self.after(0.45, self.web_server_is_killed)
        self.after(0.50, self.killed_after_charging)
        self.after(0.55, self.killed_before_sending)
        self.after(0.60, self.killed_between_statements)
        self.after(0.65, self.killed_before_answering)
        self.after(0.70, self.merchant_outage)
        self.after(0.75, self.clerk_charges_again)
        self.after(0.80, self.killed_after_sending)
        self.after(0.90, self.killed_at_booking)
        self.wait_for("all customers have ordered", lambda: not self.cast.customers.busy, 60)

    def relays_are_killed_all_the_time(self) -> None:
        """What they have published and not yet marked comes again. It must not come twice."""
        self.stage.note(f"from now on a relay is killed every {KILL_A_RELAY_EVERY:g} s")

        def kill_one_after_the_other() -> None:
            turns, seen = itertools.cycle(self.cast.relays), 0
            while not self.relays_may_live.wait(KILL_A_RELAY_EVERY):
                published = self.cast.published_events()
                if published > seen:  # else they are still starting, on a machine with much else to do
                    seen = published
                    next(turns).kill()

        threading.Thread(target=kill_one_after_the_other, daemon=True).start()

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

    def gateway_forgets(self) -> None:
        """Nobody ever learns what became of some charges: their polls time out."""
        self.stage.note("the gateway loses track of what it charges just now")
        before = len(self.cast.gateway.charges)
        self.cast.gateway.forgetful = True
        self.wait_for("five charges will never end", lambda: len(self.cast.gateway.charges) >= before + 5, 20)
        self.cast.gateway.forgetful = False

    def gateway_loses_its_answers(self) -> None:
        """It refuses, it is slow, and it charges without saying so: the shop asks again, with the same key."""
        gateway = self.cast.gateway
        self.stage.note("the gateway answers 503")
        gateway.failing = True
        time.sleep(1)
        gateway.failing, gateway.silent = False, True
        self.stage.note("the gateway charges, and says nothing")
        time.sleep(1)
        gateway.silent, gateway.delay = False, 0.5
        self.stage.note("the gateway is slow")
        time.sleep(1)
        gateway.delay = 0.0
        self.stage.note("the gateway works again")

    def killed_after_charging(self) -> None:
        """The money is taken and the shop knows nothing of it: the next worker hands over the same key."""
        self.stage.note("workers will die between a charge and their commit, and just after that")
        self.drill("charge.before_commit")
        self.drill("charge.after_commit")

    def killed_before_answering(self) -> None:
        """The order is committed and its customer has no answer: the next try gets that one, and no second order."""
        self.stage.note("a web server will die between an order and its answer; the customer tries again")
        self.drill("order.after_commit")

    def clerk_charges_again(self) -> None:
        """A second job for a charge that has been made ends without being run."""
        orders = sorted({receipt.order_id for receipt in tuple(self.cast.customers.receipts) if receipt.order_id})[:5]
        self.stage.note(f"a clerk has {len(orders)} orders charged once more")
        jobs = [self.cast.charge_again(order_id) for order_id in orders]
        self.wait_for("none of them is", lambda: self.cast.charged_before(jobs), 30)

    def merchant_leaves(self) -> None:
        """410 to its first webhook; of its second order it does not want to know."""
        self.stage.note("a merchant answers 410: it wants no more webhooks")
        self.cast.merchant.leaving.add(ANTIQUE)
        self.cast.customers.buy(Purchase.of(ANTIQUE))
        self.wait_for("the shop has noted that", lambda: self.cast.merchant_left(ANTIQUE), 30)
        self.cast.customers.buy(Purchase.of(ANTIQUE))

    def killed_before_sending(self) -> None:
        """The row is there, the mail is not: the next run must send it."""
        self.stage.note("a worker will die between noting down a mail and sending it")
        self.drill("confirmation_email.after_insert")

    def killed_after_sending(self) -> None:
        """The mail is out, nobody has noted it down: it may come twice, under one Message-ID."""
        self.stage.note("a worker will die between sending a mail and noting it down")
        self.drill("confirmation_email.after_send")

    def killed_at_booking(self) -> None:
        """Invoice and end of the job commit together: before it both are undone, after it no run follows."""
        self.stage.note("workers will die just before and just after they commit an invoice")
        self.drill("invoice.before_commit")
        self.drill("invoice.after_commit")

    def merchant_outage(self) -> None:
        """The merchants answer, but with 503."""
        self.stage.note("the merchants' server answers 503 to everything")
        self.cast.merchant.failing = True
        time.sleep(2)
        self.cast.merchant.failing = False
        self.stage.note("the merchants' server works again")

    def double_click(self) -> None:
        """Two clicks, one order."""
        purchase = Purchase.of(SKUS[0])
        answers = self.cast.customers.buy_at_once(purchase, purchase)
        ids = {answer.order_id for answer in answers if answer}
        one = len(ids) == 1 and None not in ids
        one = one and sorted(answer.replayed for answer in answers if answer) == [False, True]
        self.expect("a double click makes one order", happened=one, otherwise=f"{answers}")

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
            report = Marketplace(found, options.orders, options.per_second, options.folder).run()
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
