"""Alerts as middleware: what a worker hears and what has failed in it; and now and then a look at the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from headrace.config import Config
from headrace.context import JobContext
from headrace.core.alerts import (
    FAILURES,
    REGISTERS,
    TURN,
    CountFailures,
    Failed,
    TakeTurn,
    Turn,
    firing,
)
from headrace.core.operations import Outcome, Queues
from headrace.core.ports import Driver
from headrace.core.registers import Amend, LookRegisters
from headrace.core.states import State
from headrace.drivers.system import this_process
from headrace.errors import StoreError
from headrace.middleware import Middleware, Run
from headrace.observe.desk import Desk, Outlet
from headrace.observe.lines import Seldom
from headrace.observe.messages import Alert, Sink
from headrace.observe.returning import Returning
from headrace.observe.rules import FailedGrowth, Finding, OldestWaiting, Sight
from headrace.observe.settings import AlertSettings
from headrace.signals import Signal

logger = logging.getLogger("headrace.alerts")

TURNS = 3  # the turn to look ends after so many looks that did not take place
SLICES = 20  # of the shortest window, by which failures are counted
LAST_S = 1.0  # how long the last report of a worker may take
MOST_TALLIED = 1_000  # queues and tasks that a worker counts between two looks


class Host(Protocol):
    """What alerts need of their app."""

    config: Config
    rng: random.Random

    @property
    def driver(self) -> Driver: ...
    def new_id(self) -> str: ...


class Alerts(Middleware):
    """Made by `app.alerts`. Wrapped around nothing: a job costs nothing more."""

    def __init__(self, app: Host, settings: AlertSettings) -> None:
        self.settings = settings
        self._app = app
        self._growth = [rule for rule in settings.rules if isinstance(rule, FailedGrowth)]
        self._waiting = [rule for rule in settings.rules if isinstance(rule, OldestWaiting)]
        self._returning = Returning()
        self._tally: Counter[tuple[str, str]] = Counter()
        self._unsent: CountFailures | None = None  # a report that was not answered
        self._trouble = Seldom()
        self._desk = Desk(
            lambda: app.driver,
            app.new_id,
            [Outlet(sink) for sink in settings.sinks],
            app=app.config.name,
            cooldown_us=settings.cooldown_us,
        )

    # -- what it is told

    def wrap(self, job: JobContext | None, run: Run) -> Run:
        """`run` itself."""
        return run

    def ended(self, job: JobContext | None, outcome: Outcome) -> None:
        """Count what has failed."""
        if outcome.state is State.FAILED and self._growth:
            place = (outcome.queue, "" if job is None else job.task)
            if place in self._tally or len(self._tally) < MOST_TALLIED:
                self._tally[place] += 1

    def noticed(self, signal: Signal) -> None:
        """Ask the rules."""
        for rule in self.settings.rules:
            finding = rule.heard(signal)
            if finding is not None:
                self._report(finding)

    def _report(self, finding: Finding) -> None:
        if not finding.over or self.settings.resolved:
            self._desk.put(finding)

    # -- what it looks at

    async def beside(self, worker: str) -> None:
        """Look every 15 s or so: what has failed, for all workers; the queues, if it is this worker's turn."""
        if not self._growth and not self._waiting:
            return
        every_s = self.settings.every_us / 1_000_000
        try:
            while True:
                await asyncio.sleep(every_s * (0.75 + 0.5 * self._app.rng.random()))
                try:
                    await self._look(worker)
                except StoreError as error:
                    if times := self._trouble.count():
                        logger.warning("alerts: looking at the store failed (%d times of late): %s", times, error)
        finally:
            await self._report_last()

    async def _report_last(self) -> None:
        """A worker that ends within seconds, as with `burst`, would else take along what has failed in it."""
        if not self._tally and self._unsent is None:
            return
        report = self._unsent = self._unsent or self._taken()
        failed: Failed
        try:
            async with asyncio.timeout(LAST_S):
                (failed,) = await self._app.driver.arun(Amend((report,)))
        except (StoreError, TimeoutError) as error:
            logger.warning("alerts: what has failed last in this worker is not counted: %r", error)
            return
        self._unsent = None
        sight = Sight(failed.now_us, failed)
        for finding in (finding for rule in self._growth for finding in rule.seen(sight)):
            self._report(finding)

    async def _look(self, worker: str) -> None:
        driver = self._app.driver
        turn_us = TURNS * self.settings.every_us
        report = self._unsent = self._unsent or self._taken()
        failed: Failed
        turn: Turn
        failed, turn = await driver.arun(Amend((report, TakeTurn(register=TURN, by=worker, lease_us=turn_us))))
        self._unsent = None
        queues = await driver.arun(Queues()) if turn.mine and self._waiting else None
        # where another one looks, none: what was seen before is forgotten
        back_us = self._returning.look(queues or (), turn.now_us)
        sight = Sight(turn.now_us, failed, queues, back_us)
        found = [finding for rule in (*self._growth, *self._waiting) for finding in rule.seen(sight)]
        for finding in found:
            self._report(finding)
        if turn.mine and self.settings.resolved:
            await self._resolve({(finding.rule.key, finding.subject) for finding in found})

    def _taken(self) -> CountFailures:
        """What has failed here since the last time, as a report."""
        tally, self._tally = self._tally, Counter()
        windows = [rule.window_us for rule in self._growth] or [0]
        return CountFailures(
            register=FAILURES,
            report=self._app.new_id(),
            counts=tuple((queue, task, count) for (queue, task), count in tally.items()),
            window_us=max(windows),
            slice_us=min(windows) // SLICES,
        )

    async def _resolve(self, found: set[tuple[str, str]]) -> None:
        views = await self._app.driver.arun(LookRegisters(REGISTERS))
        mine = {rule.key: rule for rule in (*self._growth, *self._waiting)}
        for key, subject in firing([view.body for view in views]) - found:
            if key in mine:
                self._report(mine[key].resolved(subject))

    # -- by hand

    def test(self, say: Callable[[Sink, str, bool], None]) -> bool:
        """Send one message to each sink, in this thread; `say` gets what it answered. Whether all took it."""
        text = f"this is a test of the alerts of {self._app.config.name}: nothing is wrong"
        alert = Alert(
            app=self._app.config.name,
            rule="test",
            subject="",
            state="test",
            text=text,
            facts={},
            at=None,
            by=this_process(),
        )
        taken = [_tried(sink, alert, say) for sink in self.settings.sinks]
        return all(taken)

    def flush(self, seconds: float) -> bool:
        """Whether all that was found has been sent, or given up, within so long. Blocks."""
        return self._desk.flush(seconds)


def _tried(sink: Sink, alert: Alert, say: Callable[[Sink, str, bool], None]) -> bool:
    try:
        said = sink.send(alert)
    except Exception as error:  # noqa: BLE001 - a sink may be anybody's code, and what it raises is the answer
        say(sink, str(error) or type(error).__name__, False)  # noqa: FBT003
        return False
    say(sink, said, True)  # noqa: FBT003
    return True
