"""`headrace job show` and `headrace job cancel`."""

from __future__ import annotations

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import printable, say, say_json


@click.group()
def job() -> None:
    """Show or cancel one job."""


@job.command("show")
@click.argument("id")
@common
@pass_settings
def show(settings: Settings, id: str) -> None:
    """Show the job ID: state, arguments, counts, what went wrong and the last traceback.

    A job that succeeded is gone, unless its task has keep=.
    """
    show_one(settings, id, tracebacks=False)


def show_one(settings: Settings, id: str, *, tracebacks: bool) -> None:
    """Shared with `failed show`."""
    from headrace.cli.describe import job_fields, show_job

    info = settings.jobs().get(id)
    if info is None:
        raise NotFound(f"there is no job {id}: it has ended and is not kept, was forgotten, or is in another store")
    if settings.json:
        say_json(job_fields(info))
    else:
        show_job(info, tracebacks=tracebacks)


_ANSWERS = {
    "cancelled": (ExitCode.OK, "cancelled"),
    "requested": (ExitCode.OK, "is running: its worker was asked to cancel it"),
    "finished": (ExitCode.NO, "has ended already: nothing was cancelled"),
    "absent": (ExitCode.NOT_FOUND, "is not in the store: nothing was cancelled"),
}


@job.command("cancel")
@click.argument("id")
@common
@click.pass_context
@pass_settings
def cancel(settings: Settings, context: click.Context, id: str) -> None:
    """Cancel the job ID.

    A waiting job is cancelled at once. A running one is interrupted by its worker at the next heartbeat; one that
    runs in a thread ends when its function looks at current_job().cancel_requested.
    """
    answer = settings.jobs().cancel(id)
    code, text = _ANSWERS[answer]
    if settings.json:
        say_json({"id": id, "answer": answer})
    else:
        say(f"job {printable(id)} {text}")
    context.exit(code)
