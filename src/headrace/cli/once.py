"""`headrace once show`."""

from __future__ import annotations

import click

from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import say_json


@click.group()
@common
def once() -> None:
    """Show who holds a once key, and what it remembers."""


@once.command()
@click.argument("task")
@click.argument("key")
@click.option("--queue", metavar="NAME", help="Where its jobs run, if not in the task's own queue. For Redis.")
@common
@pass_settings
def show(settings: Settings, *, task: str, key: str, queue: str | None) -> None:
    """Show the record of TASK's once key KEY: state, holder, fence, how long it is remembered, the result.

    It is `held` while a job runs under it, `done` or `failed` when one has taken effect, and `free` for the next one
    otherwise. A record that says held names its last holder, also where that is gone.

    \b
    Examples:
      headrace once show shop.charge charge:17
      headrace once show shop.charge charge:17 --json | jq .result
    """
    from headrace.cli.describe import once_fields, show_once

    found = settings.jobs().once(task, key, queue=queue)
    if found.fence is None:
        raise NotFound(f"{found.task} has no record of {key!r}: nothing has run under this key, or it was forgotten")
    if settings.json:
        say_json(once_fields(found))
    else:
        show_once(found)
