"""`headrace failed edit`: other arguments for a failed job."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import as_object
from headrace.cli.exits import ExitCode
from headrace.cli.options import NotFound, Settings, common, pass_settings
from headrace.cli.output import note, printable, say, say_json

if TYPE_CHECKING:
    from headrace.failures.repairs import Edited
    from headrace.jobinfo import JobInfo
    from headrace.task import Task


def operator() -> str:
    """Who sits here, as the system says."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a name for its user
        return "unknown"


@click.command()
@click.argument("id")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Set an argument. May be repeated.")
@click.option("--drop", multiple=True, metavar="NAME", help="Leave an argument out. May be repeated.")
@click.option("--editor", is_flag=True, help="Edit all arguments as JSON in $EDITOR.")
@click.option("--why", default="", metavar="TEXT", help="What for: it is kept with the job.")
@click.option("--by", metavar="NAME", help="Who does it. Default: the user of this shell.")
@click.option("--dry-run", is_flag=True, help="Check, show what would change, and store nothing.")
@common
@click.pass_context
@pass_settings
def edit(
    settings: Settings,
    context: click.Context,
    *,
    id: str,
    pairs: tuple[str, ...],
    drop: tuple[str, ...],
    editor: bool,
    why: str,
    by: str | None,
    dry_run: bool,
) -> None:
    """Correct the arguments of the failed job ID, before it is retried or replayed.

    They are checked against the task's signature first; a VALUE is read as `headrace enqueue` reads it. Everything else
    of the job stays. What was changed, when, by whom and why is kept with the job. Exits with 1 where nothing changes.

    \b
    Examples:
      headrace failed edit 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e --set to=ann@example.com --why "left in May"
      headrace failed edit 0192f1c2-7a1e-7c3b-9d51-0f2a4b6c8d0e --editor --dry-run
    """
    if editor == bool(pairs or drop):
        raise click.UsageError("say what to change: --set and --drop, or --editor")
    if both := [name for name in drop if any(pair.startswith(f"{name}=") for pair in pairs)]:
        raise click.UsageError(f"{both[0]} is to be set and to be dropped: say one of both")
    info = settings.jobs().get(id)
    if info is None:
        raise NotFound(f"there is no job {id}: it has ended and is not kept, was forgotten, or is in another store")
    if editor:
        changes, gone = _in_editor(info)
    else:
        changes, gone = _set(settings.app().tasks.get(info.task), info, pairs), drop
    answer = settings.jobs().edit(id, changes, drop=gone, by=by or operator(), why=why, dry_run=dry_run)
    _tell(settings, answer, dry_run=dry_run)
    context.exit(ExitCode.OK if answer.diff else ExitCode.NO)


def _set(task: Task[..., Any] | None, info: JobInfo, pairs: tuple[str, ...]) -> dict[str, Any]:
    if task is None or info.envelope is None:  # it cannot be edited, as will be said
        return {}
    from headrace.core.values import decode_raw_object

    return dict(decode_raw_object(as_object(task, pairs, "--set")))


def _in_editor(info: JobInfo) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What was changed, and what is gone. What was not touched stays as it is written."""
    args: dict[str, Any] = info.args if isinstance(info.args, dict) else {}
    before = json.dumps(args, indent=2, ensure_ascii=False)
    after = click.edit(before, extension=".json")
    try:
        changes = json.loads(before if after is None else after)
    except ValueError as error:
        raise click.UsageError(f"what you have written is no JSON, so nothing was changed: {error}") from None
    if not isinstance(changes, dict):
        raise click.UsageError("what you have written is no JSON object of names and values, so nothing was changed")
    changed = {name: value for name, value in changes.items() if name not in args or args[name] != value}
    return changed, tuple(name for name in args if name not in changes)


def _tell(settings: Settings, answer: Edited, *, dry_run: bool) -> None:
    from headrace.cli.describe import diff_fields, show_diff

    if settings.json:
        diff = [diff_fields(one) for one in answer.diff]
        say_json({"id": answer.id, "stored": answer.stored, "diff": diff, "notes": answer.notes})
        return
    show_diff(answer.diff)
    for text in answer.notes:
        note(text)
    done = "would be changed" if dry_run else "changed"
    say(printable(f"job {answer.id} {done if answer.diff else 'has these arguments already: nothing was changed'}"))
