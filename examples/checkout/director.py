"""Runs a performance: opens the stage, waits for what has to happen, notes what did not, and asks for the audit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headrace.errors import StoreError

from .audit import audit
from .cast import ANTIQUE, LAST_UNIT, UNFINISHED, Cast
from .customers import Purchase
from .databases import Place
from .evidence import Evidence
from .report import Report, figures
from .stage import Figures, Stage

SKUS = ["espresso-cup", "teapot", "kettle", "coffee-grinder"]
BESIDE = 30  # units of each that scenes may sell, beside the orders that arrive


class CannotGoOn(Exception):
    """A process does not run at all."""


class Director:
    """One performance, without a script: that is `perform`, in demo.py."""

    def __init__(self, place: Place, orders: int, per_second: float, folder: Path) -> None:
        self.place = place
        self.wanted = orders
        self.per_second = per_second
        self.folder = folder
        self.deaths = 0
        self.broken = False  # see CannotGoOn
        self.known = (dict.fromkeys(UNFINISHED, 0), 0, 0)
        self.mishaps: list[str] = []
        self.poison = ""
        self.relays_may_live = threading.Event()
        self.over = threading.Event()
        stock = dict.fromkeys(SKUS, orders + BESIDE) | {LAST_UNIT: 1, ANTIQUE: 2}
        self.cast = Cast(place, folder, stock, self.process_died)
        self.stage = Stage(self.figures)

    def run(self) -> Report:
        """Perform, audit, and leave no process behind, whatever happens."""
        try:
            with self.stage:
                self.cast.enter()
                with suppress(CannotGoOn):
                    self.perform()
                evidence = self.testimony(self.cast.evidence(self.poison))
                self.stage.note("the curtain falls: every process is asked to stop")
                self.mishaps += self.cast.leave()
        finally:
            self.over.set()
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
        raise NotImplementedError

    def testimony(self, evidence: Evidence) -> Evidence:
        """What scenes have seen, added to what everyone else has."""
        return evidence

    def all_is_quiet(self) -> None:
        """Every queue and the outbox run empty, in bounded time."""
        self.wait_for("every event is out", lambda: not self.cast.waiting_events(), 30)
        self.wait_for("every job has ended", self._nothing_is_left, 45)

    def _nothing_is_left(self) -> bool:
        """Looked at twice: on Redis a job's last act may be an event, from which a relay makes the next job."""
        return not any(self.cast.waiting_events() or any(self.cast.unfinished().values()) for _ in range(2))

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
            "charges": str(len(self.cast.gateway.charges)),
            "paid": str(self.cast.gateway.statuses()["PAID"]),
            "webhooks": str(len(self.cast.merchant.webhooks)),
            "events waiting": str(events),
            "jobs waiting": str(jobs["ready"] + jobs["scheduled"]),
            "running": str(jobs["running"]),
            "parked": str(jobs["parked"]),
            "failed": str(failed),
            "processes died": str(self.deaths),
        }
