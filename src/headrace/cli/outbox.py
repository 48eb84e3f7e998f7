"""`headrace outbox`: the relay, and what operators do with events that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.logs import LogFormat
from headrace.cli.options import NotFound, Settings, app_option, common, duration, pass_settings, verbose_option
from headrace.cli.output import age, facts, iso, note, say, say_json, shortened, table
from headrace.cli.selecting import confirm
from headrace.core.wording import counted

if TYPE_CHECKING:
    from headrace.core.outbox import OutboxView, ParkedEvent

_POSITIVE = click.IntRange(min=1)
_MICROS = 1_000_000


@click.group()
@common
def outbox() -> None:
    """Carry events out, and look at those that wait."""


@outbox.command()
@app_option
@click.option("--batch", type=_POSITIVE, default=500, show_default=True, help="Most events of one claim.")
@click.option("--lease", type=duration, default="15s", show_default=True, help="A dead relay holds its events so long.")
@click.option("--max-attempts", type=_POSITIVE, default=10, show_default=True, help="Then an event is parked.")
@click.option("--retention", type=duration, default="7d", show_default=True, help="Published rows are kept so long.")
@click.option("--inbox-retention", type=duration, default="30d", show_default=True, help="Received messages, so long.")
@click.option("--once", is_flag=True, help="Stop as soon as nothing is due.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines on standard error.",
)
@verbose_option
@pass_settings
def relay(settings: Settings, /, log_format: LogFormat, **options: Any) -> None:
    """Carry events to subscribers and sinks until told to stop.

    As many relays may run as you like. SIGTERM or SIGINT (Ctrl-C) finishes the batch in hand. Subscribers and routes
    are the app's: @app.on("OrderCreated"), app.outbox.route("Order*", sink).

    \b
    Examples:
      headrace outbox relay --app shop.jobs:app
      headrace outbox relay --once
    """
    from headrace.cli.logs import set_up
    from headrace.outbox.process import run_relay

    set_up(log_format, verbose=settings.verbose)
    app = settings.app()
    run_relay(lambda: app.relay(**options), app.aclose)


@outbox.command()
@click.option(
    "--limit", type=click.IntRange(0, 10_000), default=20, show_default=True, help="Most parked events shown."
)
@common
@pass_settings
def status(settings: Settings, *, limit: int) -> None:
    """Show how many events wait, how old the oldest is, the lag, and which events are parked.

    The lag is the median time from written to published of the last hundred events.
    """
    box = settings.app().outbox
    view, parked = box.view(), box.parked(limit)
    if settings.json:
        say_json(_view_fields(view) | {"parked_events": [_event_fields(event) for event in parked]})
        return
    facts(
        [
            ("pending", view.pending),
            ("parked", view.parked),
            ("published", view.published),
            ("for CDC", view.cdc or None),
            ("oldest", age(_since(view.oldest_us, view.now_us))),
            ("lag", age(view.lag_us)),
        ]
    )
    if parked:
        say()
        table(
            ["PARKED", "TYPE", "AGGREGATE", "AGO", "ATTEMPTS", "REASON"],
            [
                [
                    *(event.id, event.event_type, f"{event.aggregate_type} {event.aggregate_id}"),
                    *(age(view.now_us - event.created_us), event.attempts, shortened(event.note)),
                ]
                for event in parked
            ],
        )


def _view_fields(view: OutboxView) -> dict[str, Any]:
    since = _since(view.oldest_us, view.now_us)
    return {
        **{name: getattr(view, name) for name in ("pending", "parked", "published", "cdc")},
        "oldest": iso(view.oldest_us),
        "oldest_age_s": None if since is None else round(since / _MICROS, 3),
        "lag_s": None if view.lag_us is None else round(view.lag_us / _MICROS, 3),
    }


def _event_fields(event: ParkedEvent) -> dict[str, Any]:
    names = ("id", "event_type", "aggregate_type", "aggregate_id", "attempts")
    return {
        **{name: getattr(event, name) for name in names},
        "created": iso(event.created_us),
        "reason": event.note,
    }


def _since(moment_us: int | None, now_us: int) -> int | None:
    return None if moment_us is None else max(0, now_us - moment_us)


@outbox.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "every", is_flag=True, help="All parked events.")
@common
@pass_settings
def retry(settings: Settings, *, ids: tuple[str, ...], every: bool) -> None:
    """Make parked events pending again: their aggregates go on with them.

    \b
    Examples:
      headrace outbox retry 0190f4e2-7c1b-7d3a-9f00-5a2b8c7d6e5f
      headrace outbox retry --all
    """
    _check_choice(ids, every=every)
    count = settings.app().outbox.retry(None if every else ids)
    _tell(settings, "retried", count, ids)


@outbox.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
@pass_settings
def skip(settings: Settings, *, ids: tuple[str, ...], yes: bool) -> None:
    """Give parked events up for good: their aggregates go on without them."""
    if confirm(f"Never publish {counted(len(ids), 'event')}?", yes=yes):
        _tell(settings, "skipped", settings.app().outbox.skip(ids), ids)


@outbox.command()
@click.option("--older-than", type=duration, default="7d", show_default=True, help="Age of what is deleted.")
@common
@pass_settings
def prune(settings: Settings, *, older_than: float) -> None:
    """Delete events that were published long ago; in CDC mode those that were written long ago.

    Relays do it by themselves once a minute, see --retention. Pending and parked events stay.
    """
    _tell(settings, "pruned", settings.app().outbox.prune(older_than))


def _check_choice(ids: tuple[str, ...], *, every: bool) -> None:
    if bool(ids) == every:
        raise click.UsageError("say which: ids, or --all")


def _tell(settings: Settings, what: str, count: int, ids: tuple[str, ...] = ()) -> None:
    if settings.json:
        say_json({what: count})
    else:
        say(f"{what} {counted(count, 'event')}")
    missing = len(set(ids)) - count
    if missing > 0:
        if count == 0:
            raise NotFound("no parked event has that id; headrace outbox status lists them")
        note(f"{counted(missing, 'event')} of these not parked")
