"""`headrace doctor`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import now_us, printable, say, say_json
from headrace.core.wording import counted

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.core.operations import Finding

_PATIENCE_S = 60
_ORDER = ("error", "warning", "info", "ok")


@click.command()
@common
@click.pass_context
@pass_settings
def doctor(settings: Settings, context: click.Context) -> None:
    """Check the store's and the app's settings: what do they promise, what should be changed?

    Exits with 1 if a finding is an error, with 3 if the store cannot be reached.
    """
    app = settings.app()
    found = [*app.jobs.inspect(), *_settings(app), *_workers(app), *_outbox(app)]
    found.sort(key=lambda finding: _ORDER.index(finding.level))
    for finding in found:
        if settings.json:
            say_json(finding)
            continue
        say(f"{finding.level:<8} {printable(finding.subject)}: {printable(finding.text)}")
        if finding.fix:
            say(f"{'':<8} fix: {printable(finding.fix)}")
    context.exit(ExitCode.NO if any(finding.level == "error" for finding in found) else ExitCode.OK)


def _settings(app: Headrace) -> Iterator[Finding]:
    from headrace.core.operations import Finding
    from headrace.urls import safe_url

    config = app.config
    yield Finding(
        "info",
        "app",
        f"{safe_url(config.url)}, name {config.name}, lease {config.lease_s:g} s, heartbeat {config.heartbeat_s:g} s: "
        f"the job of a killed worker runs again within about {config.lease_s + 1:g} s",
    )
    tasks = {task.name: task for task in app.tasks.values()}
    if tasks:
        yield Finding(
            "ok", "tasks", f"{len(tasks)} on queues {', '.join(sorted({task.queue for task in tasks.values()}))}"
        )
    else:
        yield Finding(
            "warning", "tasks", "the app has none", "import the modules that define them in the module that --app names"
        )
    endless = sorted(task.name for task in tasks.values() if task.timeout_s is None)
    if endless:
        names = ", ".join(endless[:5]) + (f" and {len(endless) - 5} more" if len(endless) > 5 else "")
        yield Finding(
            "info", "timeouts", f"a run may last for ever: {names}", "set timeout= on tasks that talk to others"
        )
    if importlib.util.find_spec("uvloop") is None:
        yield Finding(
            "info", "event loop", "uvloop is not installed", "pip install headrace[fast] for more jobs a second"
        )


def _workers(app: Headrace) -> Iterator[Finding]:
    """Queues that nobody works on. Workers of stores that keep one row for all queues count for every queue."""
    from headrace.core.operations import Finding

    now = now_us()
    alive = [worker for worker in app.jobs.workers() if worker.lease_until_us > now]
    served = {worker.queue for worker in alive}
    for queue in app.jobs.queues():
        waiting = queue.ready + queue.scheduled
        if waiting and None not in served and queue.name not in served:
            yield Finding(
                "warning",
                f"queue {queue.name}",
                f"no live worker listens; waiting: {counted(waiting, 'job')}",
                f"start one: headrace work --queues {queue.name}",
            )
    yield Finding("info", "workers", f"{len({worker.worker for worker in alive})} alive")


def _outbox(app: Headrace) -> Iterator[Finding]:
    """Events that nobody carries out, and those that were given up."""
    from headrace.core.operations import Finding
    from headrace.errors import ConfigError

    try:
        view = app.outbox.view()
    except ConfigError:  # it has none
        return
    waited_s = 0 if view.oldest_us is None else (view.now_us - view.oldest_us) // 1_000_000
    if waited_s >= _PATIENCE_S:
        yield Finding(
            "warning",
            "outbox",
            f"{counted(view.pending, 'row')} waiting, the oldest for {waited_s} s: does a relay run?",
            "start one: headrace outbox relay",
        )
    if view.parked:
        yield Finding("warning", "outbox", f"{counted(view.parked, 'event')} parked", "see headrace outbox status")
