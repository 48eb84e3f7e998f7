"""What an app can do with alerts: the part of `Headrace` that is about them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.config import Config
from headrace.core.durations import Duration
from headrace.core.ports import Driver
from headrace.errors import ConfigError
from headrace.middleware import Middleware, notice
from headrace.signals import Signal

if TYPE_CHECKING:
    from headrace.circuits import Circuits
    from headrace.observe.alerts import Alerts
    from headrace.observe.messages import Sink
    from headrace.observe.rules import Rule

FLUSH_S = 2.0  # how long the end of a process may wait for alerts that are on their way


class AlertApp:
    """Mixed into the app, whose attributes it uses."""

    if TYPE_CHECKING:
        config: Config
        rng: random.Random
        middleware: list[Middleware]

        @property
        def circuits(self) -> Circuits: ...
        @property
        def tasks(self) -> Mapping[str, Any]: ...
        @property
        def task_queues(self) -> list[str]: ...
        @property
        def driver(self) -> Driver: ...
        def new_id(self) -> str: ...

    _alerts: Alerts | None = None

    def alerts(
        self,
        file: str | Path | None = None,
        *,
        rules: Sequence[Rule] = (),
        sinks: Sequence[Sink] = (),
        cooldown: Duration = "1h",
        resolved: bool = True,
        every: Duration = "15s",
    ) -> Alerts:
        """Tell people when something is wrong: `app.alerts(rules=[FailedGrowth(count=10)], sinks=[LogSink()])`.

        Rules and sinks are in `headrace.observe`. Workers apply them; an alert is sent by one of them. A second call
        takes the place of the first.

        Args:
            file: a TOML file with all of it, in place of the rest.
            rules: when something is wrong.
            sinks: where to say so.
            cooldown: how long the same is not said again about the same subject.
            resolved: also say when it is over.
            every: how often the queues are looked at, by one worker for all.

        Raises:
            ConfigError: a rule, a sink or a value is not as it should be, or there is a mistake in the file.
        """
        from headrace.observe.alerts import Alerts  # noqa: PLC0415 - not every app has alerts
        from headrace.observe.settings import AlertSettings, read  # noqa: PLC0415

        if file is None:
            settings = AlertSettings(rules=rules, sinks=sinks, cooldown=cooldown, resolved=resolved, every=every)
        elif rules or sinks:
            raise ConfigError(f"file is {str(file)!r}, and rules or sinks are given too: give one or the other")
        else:
            settings = read(file)
        made = Alerts(self, settings)
        self.middleware[:] = [one for one in self.middleware if one is not self._alerts]
        self.middleware.append(made)
        self._alerts = made
        return made

    def notice(self, signal: Signal) -> None:
        """Tell all middleware of something that this process has made happen."""
        notice(self.middleware, signal)

    @property
    def alerting(self) -> Alerts | None:
        """What `alerts` has made."""
        return self._alerts

    def alert_doubts(self) -> list[str]:
        """Names in the rules of `alerts` that this app does not have, in sentences. Other code may have them."""
        from headrace.observe.doubts import unknown_names  # noqa: PLC0415

        known = {"circuit": self.circuits, "queue": self.task_queues, "task": self.tasks}
        return [] if self._alerts is None else list(unknown_names(self._alerts.settings, known))

    def missing_secrets(self) -> list[str]:
        """Environment variables that sinks of `alerts` need and that are not set here, in sentences."""
        from headrace.observe.doubts import missing_secrets  # noqa: PLC0415

        return [] if self._alerts is None else list(missing_secrets(self._alerts.settings))

    def _close_alerts(self) -> None:
        if self._alerts is not None:
            self._alerts.flush(FLUSH_S)

    async def _aclose_alerts(self) -> None:
        if self._alerts is not None and not self._alerts.flush(0):
            from asyncio import to_thread  # noqa: PLC0415

            await to_thread(self._close_alerts)
