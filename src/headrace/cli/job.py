"""`headrace job list`, `job show` and `job cancel`."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import MICROS, age, note, now_us, printable, say, say_json, table
from headrace.cli.selecting import filters, meant
from headrace.core.failures import FailedFilter
from headrace.core.states import State

if TYPE_CHECKING:
    from headrace.jobinfo import JobInfo

_UNFINISHED = (State.RUNNING, State.READY, State.SCHEDULED, State.PARKED)


@click.group()
@common
def job() -> None:
    """List jobs; show or cancel one."""


@job.command("list")
@click.option(
    "--state", type=click.Choice([state.value for state in State]), help="Default: all jobs that have not ended."
)
@filters
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Most jobs of one state.")
@click.option("--cursor", help="With --state: go on where the last page ended.")
@common
@pass_settings
def list_jobs(
    settings: Settings,
    *,
    state: str | None,
    queue: str | None,
    task: str | None,
    reason: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List jobs: those that run, wait, are scheduled, or have ended and are kept.

    Waiting jobs come in the order of their queue, ended ones newest first.

    \b
    Examples:
      headrace job list --state running
      headrace job list --state scheduled --task shop.jobs.send_confirmation --json
    """
    if cursor is not None and state is None:
        raise click.UsageError("--cursor goes with --state: each state has pages of its own")
    states = _UNFINISHED if state is None else (State(state),)
    jobs = settings.jobs()
    pages = {one: jobs.list(one, queue=queue, task=task, reason=reason, limit=limit, cursor=cursor) for one in states}
    found = [info for page in pages.values() for info in page.jobs]
    if settings.json:
        from headrace.cli.describe import job_fields

        for info in found:
            say_json(job_fields(info))
    elif found:
        _show(found)
    else:
        matching = f" match{meant(settings, FailedFilter(queue=queue, task=task))}" if queue or task or reason else ""
        note(f"no {state} jobs{matching}" if state else f"no unfinished jobs{matching or '; --state shows others'}")
    for one, page in pages.items():
        if page.next is not None:
            note(f"there are more: --state {one} --cursor {quote(page.next)}")


def _show(found: list[JobInfo]) -> None:
    from headrace.cli.describe import standing_reason

    now = now_us()
    table(
        ["ID", "QUEUE", "TASK", "STATE", "WHEN", "ATTEMPTS", "WORKER", "REASON"],
        [
            [
                *(info.id, info.queue, info.task, info.state.value, _when(info, now)),
                *(info.counts["attempts"], info.worker, standing_reason(info)),
            ]
            for info in found
        ],
    )


def _when(info: JobInfo, now: int) -> str:
    """When it ended, started or was due, or will be: whichever says most about its state."""
    at = int((info.finished or info.started or info.due).timestamp() * MICROS)
    return f"in {age(at - now)}" if at > now else f"{age(now - at)} ago"


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
