"""`headrace work`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.logs import LogFormat
from headrace.cli.options import (
    Settings,
    alerts_option,
    app_option,
    duration,
    pass_settings,
    size,
    verbose_option,
)

if TYPE_CHECKING:
    from headrace.app import Headrace

_POSITIVE = click.IntRange(min=1)


@click.command()
@app_option
@click.option(
    "--queues",
    "-q",
    metavar="NAMES",
    help="Queues in strict order (high,default,low) or weighted (high:6,default:3,low:1). "
    "Default: all queues of the app's tasks.",
)
@click.option("--concurrency", "-c", type=_POSITIVE, default=100, show_default=True, help="Jobs running at once.")
@click.option("--threads", type=_POSITIVE, help="Threads for plain functions. Default: as --concurrency.")
@click.option("--processes", type=_POSITIVE, help="Child processes for run_in='process'. Default: one for each CPU.")
@click.option(
    "--soft-grace", type=duration, default="3s", show_default=True, help="Time to stop for a job in a child process."
)
@click.option("--child-memory", type=size, help="Kill a child process that is larger than this, such as 500M.")
@click.option("--child-max-jobs", type=_POSITIVE, help="Replace a child process after so many jobs.")
@click.option("--grace", type=duration, default="25s", show_default=True, help="Time to finish after SIGTERM.")
@click.option("--max-jobs", type=_POSITIVE, help="Start anew after so many jobs.")
@click.option("--max-age", type=duration, help="Start anew after so long.")
@click.option("--max-memory", type=size, help="Start anew when the process is larger than this, such as 500M.")
@click.option("--max-stuck", type=click.IntRange(min=0), help="Start anew beyond so many threads past their timeout.")
@click.option("--burst", is_flag=True, help="Stop as soon as nothing is ready, and nothing runs here.")
@click.option("--twice", is_flag=True, help="Run every handler twice: does yours bear it?")
@alerts_option
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines on standard error.",
)
@verbose_option
@pass_settings
def work(settings: Settings, /, queues: str | None, log_format: LogFormat, alerts: str | None, **options: Any) -> None:
    """Run jobs until told to stop.

    The first SIGTERM or SIGINT (Ctrl-C) stops gracefully: no new jobs, running ones may finish within --grace, the
    rest goes back without losing an attempt. A second one stops at once. Lease and heartbeat are set in the app:
    Headrace(url, lease=30, heartbeat=10).

    \b
    Examples:
      headrace work --app shop.jobs:app
      headrace work --queues high,default,low --concurrency 20
      headrace work --queues mail:3,reports:1 --max-memory 500M --log-format json
    """
    from headrace.cli.logs import set_up
    from headrace.worker.process import run_worker

    set_up(log_format, verbose=settings.verbose)
    app = settings.app()
    if alerts is not None:
        app.alerts(alerts)
    _hint(app, queues)
    for doubt in (*app.alert_doubts(), *app.missing_secrets()):
        logging.getLogger("headrace.alerts").warning("%s", doubt)
    run_worker(lambda: app.worker(queues, **options), app.aclose)


def _hint(app: Headrace, queues: str | None) -> None:
    """A misspelt queue would leave a worker idle for ever; but jobs may be sent to any queue, so it is no error."""
    from headrace.worker.options import parse_queues

    known = app.task_queues
    for queue in parse_queues(queues or ())[0]:
        if queue not in known:
            logging.getLogger("headrace.worker").warning(
                "no task of this app uses queue %r; known queues: %s", queue, ", ".join(known) or "none"
            )
