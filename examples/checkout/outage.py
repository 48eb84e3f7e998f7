"""The mail server answers and takes no mail: the circuit opens, mails wait, the rest goes on, mails come at a pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from headrace.errors import StoreError

from .customers import Purchase
from .director import SKUS, Director
from .evidence import Evidence, MailOutage, Step

LASTS = 4.0  # seconds, or longer, until probes have tried
FIRST, LATER = 5, 3  # orders: half of the circuit's window opens it, whoever has ordered before; then mails must wait


class OutageScenes(Director):
    """Part of the evening."""

    outage: MailOutage | None = None

    def mail_outage(self) -> None:
        """Nothing is mailed for a while, nobody calls the server in vain, and nothing is lost."""
        self.stage.note("the mail server answers 421 to everything; orders go on")
        before, began = self.cast.done(), time.time()
        self.cast.mail.busy = True
        self._order(FIRST)
        self.wait_for("the circuit around it opens: mails wait", lambda: self._times("open") >= 1, 15)
        self._order(LATER)
        self.wait_for("the pager rings for it", lambda: self.cast.pager.rang_for("circuit-opened"), 10)
        self.wait_for("two probes have found it as bad as before", lambda: self._times("open") >= 2, 15)
        self.until(lambda: time.time() >= began + LASTS and self._flows_on(before), LASTS + 60)
        self.cast.mail.busy, ended = False, time.time()
        waiting, after, policy = self.cast.parked_mails(), self.cast.done(), self.cast.circuit().policy
        self.stage.note(f"the mail server works again; {len(waiting)} mails wait")
        self.outage = MailOutage(
            began=began,
            ended=ended,
            calls=[],
            steps=[],
            probes=policy.probes,
            refill=policy.refill,
            burst=policy.burst,
            workers=len(self.cast.workers),
            parked=len(waiting),
            attempts=sum(waiting),
            drained=0.0,
            meanwhile={what: after[what] - before[what] for what in after},
        )
        threading.Thread(target=self._note_when_drained, args=(self.outage,), daemon=True).start()

    def _order(self, count: int) -> None:
        """Beside those who come anyway: on a slow machine they may all have been here before the outage."""
        for _ in range(count):
            self.cast.customers.buy(Purchase.of(SKUS[1]))

    def _flows_on(self, before: Mapping[str, int]) -> bool:
        """Whether orders have come in since, and most of what follows an order has been done."""
        now = self.cast.done()
        done = {what: now[what] - before[what] for what in now}
        return all(done.values()) and min(done["charges"], done["invoices"]) >= done["orders"] / 2

    def mails_are_out(self) -> None:
        """All that waited, while orders came in all the time."""
        self.wait_for("no mail waits any more", lambda: self.outage is None or self.outage.drained > 0, 60)

    def testimony(self, evidence: Evidence) -> Evidence:
        """What the mail server has counted, and what the store says of the circuit."""
        evidence = super().testimony(evidence)
        if self.outage is None:
            return evidence
        steps = [Step(step.at_us / 1_000_000, step.after) for step in self.cast.circuit().history]
        return replace(evidence, outage=replace(self.outage, calls=list(self.cast.mail.calls), steps=steps))

    def _times(self, state: str) -> int:
        with suppress(StoreError):
            return sum(step.after == state for step in self.cast.circuit().history)
        return 0

    def _note_when_drained(self, outage: MailOutage) -> None:
        while not self.over.wait(0.1):
            with suppress(StoreError):
                circuit = self.cast.circuit()
                if circuit.state == "closed" and not circuit.parked:
                    self.outage = replace(outage, drained=time.time())
                    self.stage.note("the circuit has closed, and the mails that waited are out, one after the other")
                    return
