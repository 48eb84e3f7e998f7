"""`headrace check`."""

from __future__ import annotations

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, alerts_option, common, pass_settings
from headrace.cli.output import note, say, say_json, table
from headrace.cli.progress import progress
from headrace.core.wording import counted
from headrace.errors import ConfigError


@click.command()
@click.option("--store", is_flag=True, help="Decode the jobs that wait in the store, too.")
@click.option("--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="Most jobs to decode.")
@alerts_option
@common
@click.pass_context
@pass_settings
def check(settings: Settings, context: click.Context, *, store: bool, limit: int, alerts: str | None) -> None:
    """Would the waiting jobs run with this code?

    Imports the app, counts its tasks and looks whether the circuits that they name are there, and the secrets of its
    alerts; rules of alerts that name what the app does not have are warned about. With --store it also
    reads the waiting jobs and reports those that this code would break: an unknown task, arguments that no longer fit,
    an unreadable message. Nothing is changed.
    Run it with the new code before a deploy; it exits with 1 if any job would break.

    \b
    Example:
      headrace check --store --app shop.jobs:app
    """
    app = settings.app()
    if alerts is not None:
        app.alerts(alerts)
    app.check_circuits()
    for doubt in app.alert_doubts():
        note(f"warning: {doubt}")
    if missing := app.missing_secrets():
        raise ConfigError("; ".join(missing))
    tasks = {task.name for task in settings.app().tasks.values()}
    if not store:
        if settings.json:
            say_json({"tasks": sorted(tasks)})
        else:
            say(f"{counted(len(tasks), 'task')}; --store checks the waiting jobs against them")
        return
    context.exit(_check_store(settings, limit))


def _check_store(settings: Settings, limit: int) -> ExitCode:
    jobs = settings.jobs()
    waiting = sum(queue.ready + queue.scheduled + queue.parked for queue in jobs.queues())
    with progress("checking", min(waiting, limit)) as bar:
        problems = jobs.check_waiting(limit, progress=lambda done, _: bar.update(done))
    if settings.json:
        for problem in problems:
            say_json(problem)
    elif problems:
        table(["ID", "QUEUE", "TASK", "PROBLEM"], [[one.id, one.queue, one.task, one.problem] for one in problems])
    seen = counted(waiting, "waiting job") if waiting <= limit else f"{limit:,} of {waiting:,} waiting jobs"
    note(f"{seen} checked: {f'{len(problems):,} would break' if problems else 'all would run'}")
    return ExitCode.NO if problems else ExitCode.OK
