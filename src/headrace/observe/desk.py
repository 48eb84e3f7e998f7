"""From a finding to the sinks: asks the store whether this process is to send it, and does so in threads of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.core.alerts import EndAlert, TakeAlert, Taken, register_of
from headrace.core.durations import micros
from headrace.core.ports import Driver
from headrace.core.registers import Amend
from headrace.drivers.system import this_process
from headrace.errors import StoreError
from headrace.observe.lines import Line, Seldom
from headrace.observe.messages import Alert, NotTaken, Sink
from headrace.observe.rules import Finding

logger = logging.getLogger("headrace.alerts")

ROOM = 1_000  # findings that wait for the store
SINK_ROOM = 100  # alerts that wait for a sink
PAUSES_S = (1.0, 5.0)  # before a sink is tried again
STORE_PAUSES_S = (0.2, 1.0)


class Outlet:
    """One sink with its queue: what it does, and how long that takes, is its own affair."""

    def __init__(self, sink: Sink, *, room: int = SINK_ROOM) -> None:
        self._sink = sink
        self._failed = Seldom()
        self.line: Line[Alert] = Line(f"alert sink {sink.describe()}", room, self._deliver)

    def _deliver(self, alert: Alert) -> None:
        for pause_s in (*PAUSES_S, None):
            try:
                self._sink.send(alert)
            except Exception as error:  # noqa: BLE001 - a sink may be anybody's code
                final = pause_s is None or (isinstance(error, NotTaken) and not error.again)
                if final:
                    return self._tell(alert, error)
                time.sleep(pause_s or 0)
            else:
                return None
        return None

    def _tell(self, alert: Alert, error: Exception) -> None:
        if times := self._failed.count():
            why = str(error) if isinstance(error, NotTaken) else f"{type(error).__name__}: {error}"
            more = f" ({times} of late)" if times > 1 else ""
            logger.error("%s did not take the alert %r%s: %s", self.line.name, alert.line, more, why)


class Desk:
    """One for each app that has alerts. Nothing here ever waits in the thread of a caller, but for `flush`."""

    def __init__(
        self,
        driver: Callable[[], Driver],
        new_id: Callable[[], str],
        outlets: Sequence[Outlet],
        *,
        app: str,
        cooldown_us: int,
    ) -> None:
        self._driver = driver
        self._new_id = new_id
        self._outlets = outlets
        self._app = app
        self._cooldown_us = cooldown_us
        self._quiet: dict[tuple[str, str], float] = {}  # until when nobody is to be asked, on time.monotonic
        self._line: Line[Finding] = Line("alerts", ROOM, self._handle)

    def put(self, finding: Finding) -> None:
        """Have it sent, if it is to be."""
        self._line.put(finding)

    def flush(self, seconds: float) -> bool:
        """Whether all that was put in has been sent, or given up, within so long."""
        end = time.monotonic() + seconds
        lines: list[Line[Any]] = [self._line, *(outlet.line for outlet in self._outlets)]
        return all(line.drained(end - time.monotonic()) for line in lines)

    def _handle(self, finding: Finding) -> None:
        rule, key = finding.rule, (finding.rule.key, finding.subject)
        if not finding.over and time.monotonic() < self._quiet.get(key, 0.0):
            return
        cooldown_us = self._cooldown_us if rule.cooldown is None else micros(rule.cooldown, "cooldown")
        taken = self._take(finding, cooldown_us)
        if taken is None:  # better told twice than never
            taken = Taken(not finding.over, cooldown_us, 0)
        if not finding.over:
            self._keep_quiet(key, taken.quiet_us / 1_000_000)
        if taken.mine:
            alert = self._alert(finding, taken.now_us)
            for outlet in self._outlets:
                outlet.line.put(alert)

    def _keep_quiet(self, key: tuple[str, str], seconds: float) -> None:
        now = time.monotonic()
        if len(self._quiet) >= ROOM:
            self._quiet = {one: until for one, until in self._quiet.items() if until > now}
        self._quiet[key] = now + seconds

    def _take(self, finding: Finding, cooldown_us: int) -> Taken | None:
        """None: the store does not answer."""
        rule, subject, by = finding.rule.key, finding.subject, self._new_id()
        register = register_of(rule, subject)
        change = (
            EndAlert(register=register, by=by)
            if finding.over
            else TakeAlert(register=register, rule=rule, subject=subject, by=by, cooldown_us=cooldown_us)
        )
        for pause_s in (*STORE_PAUSES_S, None):
            try:
                (taken,) = self._driver().run(Amend((change,)))
            except StoreError as error:
                if pause_s is None:
                    logger.warning("alerts: the store does not say who sends %s: %s", rule, error)
                    return None
                time.sleep(pause_s)
            else:
                return taken  # type: ignore[no-any-return]
        return None

    def _alert(self, finding: Finding, now_us: int) -> Alert:
        at = datetime.fromtimestamp(now_us / 1_000_000, UTC).isoformat(timespec="milliseconds") if now_us else None
        return Alert(
            app=self._app,
            rule=finding.rule.key,
            subject=finding.subject,
            state="resolved" if finding.over else "firing",
            text=finding.text,
            facts=finding.facts,
            at=at,
            by=this_process(),  # now: it may have been forked
        )
