"""`headrace schema`: the tables of SQL stores, and the format of envelopes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.exits import ExitCode
from headrace.cli.options import Settings, common, pass_settings
from headrace.cli.output import note, printable, say, say_json
from headrace.core.wording import counted

if TYPE_CHECKING:
    from headrace.core.ports import Driver
    from headrace.core.schema import Downgraded, SchemaView

_NO_SCHEMA = "there is no schema to look after: this kind of store has no tables"
_VERSION = click.IntRange(min=0)


@click.group()
def schema() -> None:
    """Upgrade, downgrade, check the tables of an SQL store; print envelopes' JSON Schema.

    Workers and producers upgrade the tables by themselves if they may. These commands are for deploys that want to see
    it done, and for users without the right to. Where outbox= names another database, they serve that one, too.
    """


@schema.command()
@common
@pass_settings
def upgrade(settings: Settings) -> None:
    """Make the tables, or bring them up to what this headrace knows.

    Safe while workers run, old ones as well, and when started several times at once; may be repeated.
    """
    from headrace.core.schema import Upgrade

    for where, driver in _databases(settings):
        if driver is None:
            app = settings.app()
            app.jobs.queues()  # the first operation of a process looks at the server's settings
            _tell(settings, where, {"prepared": True}, f"is ready; {_NO_SCHEMA}")
            continue
        was = driver.run(Upgrade())
        now = max(was.version, was.known)
        text = f"has version {now} of the schema" + (f", upgraded from {was.version}" if was.version < now else "")
        _tell(settings, where, {"before": was.version, "version": now, "known": was.known}, text)


@schema.command()
@click.option(
    "--to", "target", type=_VERSION, required=True, help="The version to go back to; 0 takes all tables away."
)
@click.option("--yes", "-y", is_flag=True, help="Go on where jobs or events would be deleted.")
@common
@click.pass_context
@pass_settings
def downgrade(settings: Settings, context: click.Context, *, target: int, yes: bool) -> None:
    """Take the tables back to an older version, before an older headrace is deployed.

    Stop the workers and producers of this version first: they would upgrade again. Exits with 1, and changes nothing,
    if jobs or events would be lost; --yes accepts that.
    """
    from headrace.core.schema import Downgrade

    code = ExitCode.OK
    for where, driver in _databases(settings):
        if driver is None:
            _tell(settings, where, {}, _NO_SCHEMA)
            continue
        done = driver.run(Downgrade(target, losing=yes))
        _tell(settings, where, {"before": done.before, "version": done.after, "lost": done.lost}, _went(done, target))
        if done.after > target:
            code = ExitCode.NO
    if code is ExitCode.NO:
        note("nothing more was changed; --yes goes on and deletes these")
    context.exit(code)


def _went(done: Downgraded, target: int) -> str:
    lost = ", ".join(counted(count, what.removesuffix("s")) for what, count in done.lost.items())
    if done.after > target:
        return f"stays at version {done.after} of the schema: version {target} would lose {lost}"
    if done.before <= target:
        return f"stays at version {done.before} of the schema, which is not above {target}"
    now = f"has version {done.after} of the schema" if done.after else "has no schema any more"
    return f"{now}, down from {done.before}" + (f"; deleted: {lost}" if lost else "")


@schema.command()
@click.option(
    "--from", "start", type=_VERSION, default=0, show_default=True, help="The version that is there; 0: none."
)
@click.option("--to", "target", type=_VERSION, help="The version to go to. Default: the newest.")
@common
@pass_settings
def sql(settings: Settings, *, start: int, target: int | None) -> None:
    """Print the statements that `upgrade` would run, for whoever may run them. Connects to nothing.

    \b
    Examples:
      headrace schema sql > headrace.sql
      headrace schema sql --from 1
    """
    from headrace.migrations import database_of, latest, statements

    config = settings.app().config
    databases = [found for url in (config.url, config.outbox) if url and (found := database_of(url))]
    if not databases:
        note(_NO_SCHEMA)
    for database in dict.fromkeys(databases):
        texts = statements(database, name=config.name, from_version=start, to_version=target)
        if settings.json:
            version = latest(database) if target is None else target
            say_json({"database": database, "from": start, "to": version, "statements": texts})
            continue
        whole = database != "mysql"  # which ends a transaction at each change of a table
        for text in [*["begin"] * whole, *texts, *["commit"] * whole]:
            say(f"{printable(text, lines=True)};\n")


@schema.command()
@common
@click.pass_context
@pass_settings
def check(settings: Settings, context: click.Context) -> None:
    """Do the tables have the version that this headrace knows? Changes nothing; exits with 1 if not.

    A newer version may still be usable, so that old workers run on during a deploy; the answer says so.
    """
    from headrace.core.schema import ReadSchema

    code = ExitCode.OK
    for where, driver in _databases(settings):
        if driver is None:
            _tell(settings, where, {"state": "none"}, _NO_SCHEMA)
            continue
        view = driver.run(ReadSchema())
        state, text = _compared(view)
        fields = {"state": state, "version": view.version, "known": view.known, "oldest": view.oldest}
        _tell(settings, where, fields | {"usable": view.usable}, text)
        if state != "current":
            code = ExitCode.NO
    context.exit(code)


def _compared(view: SchemaView) -> tuple[str, str]:
    if view.version == view.known:
        return "current", f"has version {view.version} of the schema, the one that this headrace knows"
    if view.version < view.known:
        there = f"has version {view.version} of the schema" if view.version else "has no schema yet"
        return "older", f"{there}, this headrace knows {view.known}: run headrace schema upgrade"
    may = "it may be used all the same" if view.usable else f"only code that knows {view.oldest} can use it"
    return "newer", f"has version {view.version} of the schema, this headrace knows {view.known}: {may}"


@schema.command()
@common
@pass_settings
def envelope(settings: Settings) -> None:
    """Print the JSON Schema of the envelope.

    A program in any language can enqueue by writing envelopes: see `headrace enqueue --envelope -`.

    \b
    Example:
      headrace schema envelope > envelope.schema.json
    """
    from headrace.core import codec

    described = codec.schema()
    if settings.json:
        say_json(described)
    else:
        say(json.dumps(described, indent=2))


def _databases(settings: Settings) -> Iterator[tuple[str, Driver | None]]:
    """Where the jobs are, and where the outbox is; no driver for a store that has no schema."""
    from headrace.migrations import database_of
    from headrace.urls import safe_url

    app = settings.app()
    config = app.config
    yield safe_url(config.url), app.driver if database_of(config.url) else None
    if config.outbox is not None and config.outbox != config.url:
        yield safe_url(config.outbox), app.outbox_driver


def _tell(settings: Settings, where: str, fields: dict[str, Any], text: str) -> None:
    if settings.json:
        say_json({"store": where, "name": settings.app().config.name} | fields)
    else:
        say(f"{printable(where)} {text}" if not text.startswith("there is") else f"{printable(where)}: {text}")
