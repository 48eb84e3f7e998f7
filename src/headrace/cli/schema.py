"""`headrace schema`."""

from __future__ import annotations

import json

import click

from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import printable, say, say_json


@click.command()
@click.option("--store", is_flag=True, help="Prepare the store instead; refuse settings that lose jobs.")
@common
@pass_settings
def schema(settings: Settings, *, store: bool) -> None:
    """Print the JSON Schema of the envelope, or prepare the store.

    A program in any language can enqueue by writing envelopes: see `headrace enqueue --envelope -`. Workers and
    producers prepare the store by themselves; --store is for deploys that want to see it done, and may be repeated.

    \b
    Examples:
      headrace schema > envelope.schema.json
      headrace schema --store
    """
    if store:
        _prepare(settings)
        return
    from headrace.core import codec

    described = codec.schema()
    if settings.json:
        say_json(described)
    else:
        say(json.dumps(described, indent=2))


def _prepare(settings: Settings) -> None:
    from headrace.urls import safe_url

    app = settings.app()
    app.jobs.queues()  # the first operation of a process prepares the store
    where = safe_url(app.config.url)
    if settings.json:
        say_json({"store": where, "name": app.config.name, "prepared": True})
    else:
        say(f"{printable(where)} is ready for {app.config.name}")
