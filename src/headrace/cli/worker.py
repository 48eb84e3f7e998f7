"""`headrace worker list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import age, iso, note, now_us, say_json, table

if TYPE_CHECKING:
    from headrace.core.operations import WorkerView


@click.group()
@common
def worker() -> None:
    """List workers."""


@worker.command("list")
@common
@pass_settings
def list_workers(settings: Settings) -> None:
    """List workers: which are alive, how many jobs they hold, until when their lease holds.

    A worker whose lease is over has died or hangs; another one takes over its jobs. One that stopped is not listed.
    Stores that keep one row for all queues of a worker show none; elsewhere it has a row for each queue.
    """
    now = now_us()
    workers = sorted(settings.jobs().workers(), key=lambda view: (view.worker, view.queue or ""))
    if settings.json:
        for view in workers:
            say_json(
                {
                    "worker": view.worker,
                    "queue": view.queue,
                    "alive": view.lease_until_us > now,
                    "held": view.held,
                    "lease_until": iso(view.lease_until_us),
                }
            )
        return
    if not workers:
        note("no worker is running")
        return
    table(
        ["WORKER", "QUEUE", "STATE", "HOLDS", "LEASE"],
        [
            [view.worker, view.queue, "alive" if view.lease_until_us > now else "gone", view.held, _lease(view, now)]
            for view in workers
        ],
    )


def _lease(view: WorkerView, now: int) -> str:
    left = view.lease_until_us - now
    return f"{age(left)} left" if left > 0 else f"over for {age(-left)}"
