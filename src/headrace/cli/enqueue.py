"""`headrace enqueue`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from headrace.cli.arguments import as_object, split
from headrace.cli.options import Settings, common, duration, pass_settings
from headrace.cli.output import note, printable, say, say_json
from headrace.core.wording import near

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.task import Task


def _moment(text: str) -> datetime:
    """ISO-8601 with its offset. Serves as the type of an option."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no moment: write it like 2030-01-31T09:00:00+01:00") from None
    if found.utcoffset() is None:
        raise click.BadParameter(
            f"{text!r} has no offset, and would mean another moment elsewhere: write {text}+00:00 for UTC"
        )
    return found


_moment.__name__ = "moment"  # what help calls the value


def _task_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """For the shell's completion; an app that cannot be imported has no names to offer."""
    from headrace.cli.locate import locate
    from headrace.errors import HeadraceError

    settings = context.find_object(Settings) or Settings()
    try:
        return sorted(name for name in locate(settings.app_spec).tasks if name.startswith(incomplete))
    except HeadraceError:
        return []


@click.command()
@click.argument("task", required=False, shell_complete=_task_names)
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "json_args", metavar="JSON", help="All arguments as one JSON object, instead of NAME=VALUE.")
@click.option("--in", "run_in", type=duration, help="Not before this has passed, such as 10m.")
@click.option("--at", "run_at", type=_moment, help="Not before this moment, ISO-8601 with its offset.")
@click.option("--queue", metavar="NAME", help="Another queue than the task's.")
@click.option("--priority", type=click.IntRange(-100, 100), help="Higher runs first within its queue.")
@click.option("--expires", type=duration, help="Do not start later than this from now.")
@click.option("--deadline", type=duration, help="Start no run, first or repeated, later than this from now.")
@click.option("--timeout", type=duration, help="Of one run.")
@click.option("--unique", metavar="KEY", help="Not while another unfinished job holds KEY.")
@click.option("--id", metavar="ID", help="The job's id: enqueueing it again makes no second job.")
@click.option("--tenant", metavar="NAME", help="Whose job it is.")
@click.option("--tag", "tags", multiple=True, metavar="TEXT", help="May be repeated.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option(
    "--envelope",
    type=click.File("rb"),
    help="Enqueue envelopes from FILE (- for standard input), one JSON object a line.",
)
@click.option(
    "--unchecked", is_flag=True, help="With --envelope: also tasks and arguments that this code does not know."
)
@common
@pass_settings
def enqueue(
    settings: Settings,
    /,
    *,
    task: str | None,
    arguments: tuple[str, ...],
    json_args: str | None,
    envelope: BinaryIO | None,
    unchecked: bool,
    **options: Any,
) -> None:
    """Enqueue a job of TASK and print its id, or enqueue envelopes.

    A VALUE is read as the task's annotation asks: text for str, else JSON, else text.

    \b
    Examples:
      headrace enqueue shop.jobs.send_confirmation order_id=17
      headrace enqueue shop.jobs.import_file --args '{"path": "a.csv", "rows": [1, 2]}' --in 5m
      my-program-in-go | headrace enqueue --envelope -
    `headrace schema` describes envelopes.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if envelope is not None:
        if task or arguments or json_args or given:
            raise click.UsageError("--envelope takes no task, arguments or options: an envelope holds them")
        from headrace.cli.envelopes import enqueue_envelopes

        enqueue_envelopes(settings, envelope, unchecked=unchecked)
        return
    if task is None:
        raise click.UsageError("name a task, or give --envelope FILE")
    if unchecked:
        raise click.UsageError("--unchecked goes with --envelope only")
    found = _find(settings.app(), task)
    job = found.using(**_using(given)).enqueue(**_typed(found, arguments, json_args))
    if settings.json:
        say_json({"id": job.id, "status": job.status})
    else:
        say(printable(job.id))
    if job.duplicate:
        note(
            {"duplicate": f"job {job.id} holds the unique key: nothing was enqueued"}.get(
                job.status, f"job {job.id} was enqueued before"
            )
        )


def _find(app: Headrace, name: str) -> Task[..., Any]:
    from headrace.errors import UnknownTask

    found = app.tasks.get(name)
    if found is not None:
        return found
    names = sorted(app.tasks)
    if close := near(name, names):
        fix = f"did you mean {' or '.join(close)}?"
    elif names:
        fix = f"it has {', '.join(names[:10])}{' and more' if len(names) > 10 else ''}"
    else:
        fix = "it has none; import the modules that define them in the module that --app names"
    raise UnknownTask(f"the app has no task {name!r}: {fix}")


def _using(given: dict[str, Any]) -> dict[str, Any]:
    """Options of the command as options of `Task.using`."""
    using = dict(given)
    run_in, run_at = using.pop("run_in", None), using.pop("run_at", None)
    if run_in is not None and run_at is not None:
        raise click.UsageError("give --in or --at, not both")
    if run_in is not None or run_at is not None:
        using["run_after"] = run_at if run_in is None else run_in
    if "headers" in using:
        using["headers"] = dict(split(pair, "--header") for pair in using["headers"])
    return using


def _typed(task: Task[..., Any], arguments: tuple[str, ...], json_args: str | None) -> dict[str, Any]:
    """The arguments as the task's annotations have them.

    Raises:
        InvalidArguments: they do not fit; names the argument.
    """
    import msgspec

    if json_args is None:
        return task.arguments.decode(as_object(task, arguments, "argument"))
    if arguments:
        raise click.UsageError("give NAME=VALUE or --args, not both")
    try:
        raw = json_args.encode()
        parsed = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(f"--args is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise click.UsageError("--args must be a JSON object of argument names and values")
    return task.arguments.decode(raw)
