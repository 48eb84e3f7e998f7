"""`headrace queue list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import age, iso, note, now_us, say_json, table

if TYPE_CHECKING:
    from headrace.core.operations import QueueView


@click.group()
@common
def queue() -> None:
    """List queues."""


@queue.command("list")
@common
@pass_settings
def list_queues(settings: Settings) -> None:
    """List queues: how many jobs wait, run and have failed, and how old the oldest are.

    Cheap, however many jobs wait. Jobs that are due count as ready.
    """
    queues = settings.jobs().queues()
    now = now_us()
    if settings.json:
        for view in queues:
            say_json(_fields(view, now))
        return
    if not queues:
        note("no queue has had a job yet")
        return
    table(
        ["QUEUE", "READY", "SCHEDULED", "RUNNING", "PARKED", "FAILED", "OLDEST READY", "OLDEST RUNNING"],
        [
            [
                *(view.name, view.ready, view.scheduled, view.running, view.parked, view.failed),
                *(age(_since(view.oldest_ready_us, now)), age(_since(view.oldest_running_us, now))),
            ]
            for view in queues
        ],
    )


def _fields(view: QueueView, now: int) -> dict[str, Any]:
    counts = {name: getattr(view, name) for name in ("ready", "scheduled", "running", "parked", "failed")}
    fields: dict[str, Any] = {"queue": view.name, **counts}
    for name, moment in (("oldest_ready", view.oldest_ready_us), ("oldest_running", view.oldest_running_us)):
        since = _since(moment, now)
        fields |= {name: iso(moment), f"{name}_age_s": None if since is None else round(since / 1_000_000, 3)}
    return fields


def _since(moment_us: int | None, now: int) -> int | None:
    return None if moment_us is None else max(0, now - moment_us)
