"""`headrace why`."""

from __future__ import annotations

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import printable, say, say_json, shortened

_LONGEST = 1_000  # characters of a line: an error's message may be of any length


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
            say(shortened(printable(line), _LONGEST))
    context.exit(ExitCode.OK if found else ExitCode.NOT_FOUND)
