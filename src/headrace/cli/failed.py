"""`headrace failed`: the jobs that will not run again by themselves."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

import click

from headrace.cli.failed_change import forget, prune, retry
from headrace.cli.failed_edit import edit
from headrace.cli.failed_replay import replay
from headrace.cli.job import show_one
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import age, note, now_us, say_json, shortened, table, writing
from headrace.cli.progress import progress
from headrace.cli.selecting import failed_filters, meant
from headrace.core.failures import FailedFilter

_MICROS = 1_000_000


@click.group()
@common
def failed() -> None:
    """List, group, show, edit, replay, retry, forget, prune failed jobs."""


failed.add_command(retry)
failed.add_command(forget)
failed.add_command(prune)
failed.add_command(edit)
failed.add_command(replay)


@failed.command("list")
@failed_filters
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Most jobs to show.")
@click.option("--cursor", help="Go on where the last page ended.")
@common
@pass_settings
def list_failed(settings: Settings, *, where: FailedFilter, limit: int, cursor: str | None) -> None:
    """List failed jobs, the newest first.

    \b
    Examples:
      headrace failed list --task shop.jobs.send_confirmation --reason timeout
      headrace failed list --since 2h --text "no such mailbox" --tenant shop-17
      headrace failed list --json | jq -r .id | headrace failed retry -
    """
    from headrace.cli.describe import job_fields

    page = settings.jobs().find_failed(where, limit=limit, cursor=cursor)
    if settings.json:
        for info in page.jobs:
            say_json(job_fields(info))
    elif page.jobs:
        now = now_us()
        ended = [int((info.finished or info.enqueued).timestamp() * _MICROS) for info in page.jobs]
        table(
            ["ID", "QUEUE", "TASK", "AGO", "ATTEMPTS", "REASON", "ERROR"],
            [
                [
                    info.id,
                    info.queue,
                    info.task,
                    age(now - at),
                    info.counts["attempts"],
                    info.reason,
                    shortened(info.failure),
                ]
                for info, at in zip(page.jobs, ended, strict=True)
            ],
        )
    else:
        note("no failed jobs" + (f" match{meant(settings, where)}" if where != FailedFilter() else ""))
    if page.next is not None:
        note(f"there are more: --cursor {quote(page.next)}")


@failed.command("show")
@click.argument("id")
@click.option("--raw", is_flag=True, help="Write its message as it is stored, also one that cannot be read.")
@common
@pass_settings
def show(settings: Settings, id: str, *, raw: bool) -> None:
    """Show the job ID with its arguments, all its errors and tracebacks, and who has corrected it.

    \b
    Examples:
      headrace failed show 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e
      headrace failed show 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e --raw > message.json
    """
    if not raw:
        show_one(settings, id, tracebacks=True)
        return
    info = settings.jobs().get(id)
    if info is None or info.body is None:
        raise NotFound(f"there is no job {id}")
    with writing():
        click.echo(info.body, nl=False)


@failed.command("groups")
@failed_filters
@common
@pass_settings
def groups(settings: Settings, *, where: FailedFilter) -> None:
    """Group failed jobs by what went wrong and where, the largest group first.

    A fingerprint stands for the type of the error and the innermost function of your own code; it stays the same from
    deploy to deploy.

    \b
    Examples:
      headrace failed groups --since 1d
      headrace failed list --fingerprint 4f8a0c1b2d3e
    """
    with progress("reading") as bar:
        found = settings.jobs().failure_groups(where, progress=lambda seen, _: bar.update(seen))
    if settings.json:
        for group in found:
            say_json(group)
    elif found:
        now = now_us()
        table(
            ["FINGERPRINT", "JOBS", "FIRST", "LAST", "ERROR", "PLACE", "TASKS", "EXAMPLE"],
            [
                [
                    *(group.fingerprint, group.count, _ago(group.first, now), _ago(group.last, now)),
                    *(group.type, group.place, shortened(", ".join(group.tasks)), group.example),
                ]
                for group in found
            ],
        )
    else:
        note("no failed jobs" + (f" match{meant(settings, where)}" if where != FailedFilter() else ""))


def _ago(moment: datetime, now: int) -> str:
    return age(now - int(moment.timestamp() * _MICROS))
