"""`headrace hold list|release`."""

from __future__ import annotations

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import age, iso, note, now_us, printable, say, say_json, table


@click.group()
@common
def hold() -> None:
    """List tasks that are held since their jobs killed their workers; release one."""


@hold.command("list")
@common
@pass_settings
def list_holds(settings: Settings) -> None:
    """List what is held: which task, under which version, since when, how many of its jobs were convicted.

    TRIED: workers of another version have begun to run the others. The convicted ones are failed jobs, see
    `headrace failed list --reason crashed`.
    """
    found = settings.app().holds.look()
    if settings.json:
        for one in found:
            since = iso(round(one.since.timestamp() * 1_000_000))
            say_json(
                {
                    "task": one.task,
                    "version": one.version,
                    "since": since,
                    "jobs": one.jobs,
                    "tried": one.tried,
                    "queues": one.queues,
                }
            )
        return
    if not found:
        note("no task is held")
        return
    now = now_us()
    table(
        ["TASK", "VERSION", "HELD FOR", "CONVICTED", "TRIED", "PARKED IN"],
        [
            [
                *(one.task, one.version, age(now - round(one.since.timestamp() * 1_000_000)), len(one.jobs)),
                *("yes" if one.tried else "no", ", ".join(one.queues)),
            ]
            for one in found
        ],
    )


@hold.command()
@click.argument("task")
@click.option("--version", metavar="VERSION", help="Only what is held under this version. Default: all.")
@common
@pass_settings
def release(settings: Settings, *, task: str, version: str | None) -> int:
    """Run the jobs of TASK again: workers give back what is parked, at a pace. Should it crash on, it is held again.

    \b
    Examples:
      headrace hold release shop.jobs.import_price_list
      headrace hold release shop.jobs.import_price_list --version 4f2a91c
    """
    holds = settings.app().holds
    freed = holds.free(task, version=version, by=_operator())
    if not freed:
        if task not in {one.task for one in holds.look()} and task not in settings.app().tasks:
            raise NotFound(
                f"no task {task!r} is held, and the app has none of that name: `headrace hold list` lists them"
            )
        note(f"{task} is not held" + (f" under version {version}" if version else ""))
        return ExitCode.NO
    for one in freed:
        say(f"released {printable(task)}" + (f", held under version {printable(one)}" if one else ""))
    return ExitCode.OK


def _operator() -> str:
    import getpass

    from headrace.drivers.system import this_process

    try:
        return f"{getpass.getuser()}@{this_process()}"
    except (OSError, KeyError):  # an id without a name
        return this_process()
