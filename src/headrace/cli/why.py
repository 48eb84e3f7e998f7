"""`headrace why`."""

from __future__ import annotations

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import printable, say, say_json


@click.command()
@click.argument("id")
@common
@click.pass_context
@pass_settings
def why(settings: Settings, context: click.Context, id: str) -> None:
    """Say why the job ID is where it is: what it waits for, who holds it, what went wrong."""
    jobs = settings.jobs()
    found = jobs.get(id)
    lines = jobs.why(id)
    if settings.json:
        say_json({"id": id, "state": found.state.value if found else None, "why": list(lines)})
    else:
        for line in lines:
            say(printable(line))
    context.exit(ExitCode.OK if found else ExitCode.NOT_FOUND)
