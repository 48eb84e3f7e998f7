"""`flask headrace ...`: the commands of `headrace`, for the app that Flask has made."""

from __future__ import annotations

import click

from headrace.app import Headrace
from headrace.cli import run
from headrace.cli.options import Settings
from headrace.cli.output import survive_any_encoding


class _FlaskSettings(Settings):
    """The app is there already: Flask has found it."""

    def __init__(self, app: Headrace) -> None:
        super().__init__(_app=app)
        self._flask_jobs = app

    def app(self) -> Headrace:
        """The extension; closed when the command ends."""
        if self.app_spec is not None:
            raise click.UsageError(f"--app {self.app_spec} goes before headrace: flask --app ... headrace ...")
        click.get_current_context().call_on_close(self._flask_jobs.close)
        return self._flask_jobs


def command_for(app: Headrace) -> click.Command:
    """The command `headrace` of a Flask app. Everything behind it is read, answered and explained by our own."""

    @click.command(
        "headrace",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        short_help="Workers, jobs, failed jobs, the outbox, the schema.",
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def headrace(context: click.Context, arguments: tuple[str, ...]) -> None:
        survive_any_encoding()
        context.exit(run(arguments, "flask headrace", _FlaskSettings(app)))

    return headrace
