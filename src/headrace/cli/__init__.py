"""The command `headrace`. Commands are imported when they are called, so that --help is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

from headrace import __version__
from headrace.cli.exits import MEANING, ExitCode
from headrace.cli.options import NotFound, Settings, app_option, verbose_option
from headrace.cli.output import NO_ROOM, CannotWrite, ReaderLeft, flush, note, printable, survive_any_encoding

Loader = Callable[[], click.Command]


def _work() -> click.Command:
    from headrace.cli.work import work

    return work


def _enqueue() -> click.Command:
    from headrace.cli.enqueue import enqueue

    return enqueue


def _job() -> click.Command:
    from headrace.cli.job import job

    return job


def _queue() -> click.Command:
    from headrace.cli.queue import queue

    return queue


def _worker() -> click.Command:
    from headrace.cli.worker import worker

    return worker


def _why() -> click.Command:
    from headrace.cli.why import why

    return why


def _failed() -> click.Command:
    from headrace.cli.failed import failed

    return failed


def _outbox() -> click.Command:
    from headrace.cli.outbox import outbox

    return outbox


def _once() -> click.Command:
    from headrace.cli.once import once

    return once


def _hold() -> click.Command:
    from headrace.cli.hold import hold

    return hold


def _alerts() -> click.Command:
    from headrace.cli.alerts import alerts

    return alerts


def _metrics() -> click.Command:
    from headrace.cli.metrics import metrics

    return metrics


def _circuit() -> click.Command:
    from headrace.cli.circuit import circuit

    return circuit


def _check() -> click.Command:
    from headrace.cli.check import check

    return check


def _schema() -> click.Command:
    from headrace.cli.schema import schema

    return schema


def _doctor() -> click.Command:
    from headrace.cli.doctor import doctor

    return doctor


def _completion() -> click.Command:
    from headrace.cli.completion import completion

    return completion


def _version() -> click.Command:
    from headrace.cli.version import version

    return version


COMMANDS: dict[str, tuple[Loader, str]] = {
    "work": (_work, "Run jobs until told to stop."),
    "enqueue": (_enqueue, "Enqueue a job, or envelopes from standard input."),
    "job": (_job, "List jobs; show or cancel one."),
    "queue": (_queue, "List queues: counts, oldest ready, oldest running."),
    "worker": (_worker, "List workers: alive or gone, what they hold."),
    "why": (_why, "Say why a job is where it is."),
    "failed": (_failed, "List, group, show, edit, replay, forget failed jobs."),
    "once": (_once, "Show who holds a once key, and what it remembers."),
    "circuit": (_circuit, "List circuits; show one; open, close or reset one."),
    "outbox": (_outbox, "Carry events out; show, retry, skip, prune them."),
    "hold": (_hold, "List tasks that are held since they kill their workers; release one."),
    "alerts": (_alerts, "Try the sinks of the alerts."),
    "metrics": (_metrics, "Print or serve what the store knows, for Prometheus."),
    "check": (_check, "Would the waiting jobs run with this code?"),
    "schema": (_schema, "Upgrade, downgrade, check the tables; print the SQL, or the envelope's JSON Schema."),
    "doctor": (_doctor, "Check the store's and the app's settings."),
    "completion": (_completion, "Print the shell's completion script."),
    "version": (_version, "Print versions."),
}


class Commands(click.Group):
    """Knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the common ones first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        found = COMMANDS.get(cmd_name)
        return found[0]() if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table's own lines, so that --help imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code.value), meaning) for code, meaning in MEANING.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="headrace", message="%(prog)s %(version)s", help="Print the version.")
@app_option
@verbose_option
def headrace() -> None:
    """Background jobs that survive crashes, outages, double clicks and deploys.

    \b
    Examples:
      headrace work --app shop.jobs:app --queues high,default,low
      headrace enqueue shop.jobs.send_confirmation order_id=17
      headrace failed retry --task shop.jobs.send_confirmation
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: run the command and leave the process with its exit code."""
    survive_any_encoding()
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None, program: str = "headrace", settings: Settings | None = None) -> int:
    """Run the command, called `program`, and return its exit code. Errors are one line on standard error.

    `settings` come from a framework that has found the app already.
    """
    settings = Settings() if settings is None else settings
    try:
        code = headrace.main(arguments, program, standalone_mode=False, obj=settings)
        flush()
    except (ReaderLeft, BrokenPipeError):
        _drop_output()
        return ExitCode.OK
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told to the user in one line, with its exit code
        return _explain(error, settings)
    return code if isinstance(code, int) else ExitCode.OK


def _drop_output() -> None:
    """What is still buffered would be an error, or a second one, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: BaseException, settings: Settings) -> int:
    code, line = _verdict(error)
    if code is ExitCode.OUTPUT:
        _drop_output()
    if settings.verbose and code is not ExitCode.INTERRUPTED:
        import traceback

        click.echo(printable("".join(traceback.format_exception(error)), lines=True), err=True, nl=False)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    if isinstance(error, click.UsageError) and error.ctx is not None:
        note(error.ctx.get_usage())
    if line:
        note(f"headrace: {line}")
    return code


def _verdict(error: BaseException) -> tuple[ExitCode, str]:
    from headrace.errors import HeadraceError, RepairError, StoreError

    if isinstance(error, OSError) and error.errno in NO_ROOM:  # of click's own --help: no command writes a file
        error = CannotWrite.because(error)
    if isinstance(error, CannotWrite):
        return ExitCode.OUTPUT, str(error)
    if isinstance(error, click.ClickException):
        return ExitCode.NOT_FOUND if isinstance(error, NotFound) else ExitCode.USAGE, error.format_message()
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return ExitCode.INTERRUPTED, "interrupted"
    if isinstance(error, HeadraceError):
        code = ExitCode.NO if isinstance(error, RepairError) else ExitCode.USAGE
        return ExitCode.STORE if isinstance(error, StoreError) else code, str(error)
    return ExitCode.INTERNAL, f"{type(error).__name__}: {error} (this is a bug; --verbose shows where)"
