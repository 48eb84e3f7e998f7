"""`headrace alerts test`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, alerts_option, common, pass_settings
from headrace.cli.output import note, say_json, table

if TYPE_CHECKING:
    from headrace.observe.messages import Sink


@click.group()
@common
def alerts() -> None:
    """Try the sinks of the alerts."""


@alerts.command()
@alerts_option
@common
@pass_settings
def test(settings: Settings, *, alerts: str | None) -> int:
    """Send one test message to each sink, and print what it answered.

    Without --alerts and HEADRACE_ALERTS, the alerts of the app's code are tried. The exit code is 1 where a sink did
    not take it. Rules about circuits, queues and tasks that the app does not have are warned about.

    \b
    Examples:
      headrace alerts test
      headrace alerts test --alerts alerts.toml
    """
    from headrace.errors import ConfigError

    app = settings.app()
    found = app.alerts(alerts) if alerts is not None else app.alerting
    if found is None:
        raise ConfigError("this app has no alerts: name a file with --alerts, or call app.alerts(rules=..., sinks=...)")
    for doubt in app.alert_doubts():
        note(f"warning: {doubt}")
    rows: list[tuple[str, bool, str]] = []

    def tried(sink: Sink, said: str, taken: bool) -> None:  # noqa: FBT001 - what `test` hands over
        rows.append((sink.describe(), taken, said))

    everybody = found.test(tried)
    if settings.json:
        for sink, taken, said in rows:
            say_json({"sink": sink, "taken": taken, "said": said})
    else:
        table(["SINK", "TAKEN", "SAID"], [(sink, "yes" if taken else "no", said) for sink, taken, said in rows])
    return ExitCode.OK if everybody else ExitCode.NO
