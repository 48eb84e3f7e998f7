"""`headrace failed`: the jobs that will not run again by themselves."""

from __future__ import annotations

import click

from headrace.cli.failed_change import forget, prune, retry
from headrace.cli.job import show_one
from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import age, note, now_us, say_json, shortened, table
from headrace.cli.selecting import filters, meant

_MICROS = 1_000_000


@click.group()
@common
def failed() -> None:
    """List, show, retry, forget, prune failed jobs."""


failed.add_command(retry)
failed.add_command(forget)
failed.add_command(prune)


@failed.command("list")
@filters
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Most jobs to show.")
@click.option("--cursor", help="Go on where the last page ended.")
@common
@pass_settings
def list_failed(
    settings: Settings, *, queue: str | None, task: str | None, reason: str | None, limit: int, cursor: str | None
) -> None:
    """List failed jobs, the newest first.

    \b
    Examples:
      headrace failed list --task shop.jobs.send_confirmation --reason timeout
      headrace failed list --json | jq -r .id | headrace failed retry -
    """
    from headrace.cli.describe import job_fields

    page = settings.jobs().list("failed", queue=queue, task=task, reason=reason, limit=limit, cursor=cursor)
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
        note("no failed jobs" + (f" match{meant(settings, task)}" if queue or task or reason else ""))
    if page.next is not None:
        note(f"there are more: --cursor {page.next}")


@failed.command("show")
@click.argument("id")
@common
@pass_settings
def show(settings: Settings, id: str) -> None:
    """Show the job ID with its arguments and all its errors and tracebacks."""
    show_one(settings, id, tracebacks=True)
