"""`manage.py headrace ...`: the command `headrace` with the project's app and tasks."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headrace.cli import run
from headrace.contrib.django.registry import discover

APP = "headrace.contrib.django:app"
_WITH_VALUE = {"--settings", "--pythonpath"}  # Django has heeded them before a command is called
_OURS = {"--traceback": "--verbose"}
_WITHOUT = {"--no-color", "--force-color", "--skip-checks"}


class Command(BaseCommand):
    """Hands everything on; `manage.py headrace --help` shows what there is."""

    help = "Run jobs, and look after them: manage.py headrace work, failed list, schema check and others."
    requires_system_checks = ()  # where the database does not answer, the commands say so themselves

    def run_from_argv(self, argv: list[str]) -> None:
        """`manage.py headrace ...`: leaves the process with the exit code of our command."""
        arguments = own_arguments(argv[2:])
        if "work" in arguments and not {"--help", "-h", "--skip-checks"} & set(argv):
            self.check()
        sys.exit(self._run(arguments, Path(argv[0]).name))

    def print_help(self, prog_name: str, subcommand: str) -> None:
        """`manage.py help headrace`."""
        self._run(["--help"], Path(prog_name).name)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """For `call_command("headrace", "failed", "list")`."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    def handle(self, *_: Any, **options: Any) -> None:
        """`call_command("headrace", ...)`: raises where our command answers with another exit code than 0."""
        arguments = list(options["arguments"])
        with contextlib.redirect_stdout(options.get("stdout") or sys.stdout):
            code = self._run(arguments, "manage.py")
        if code:
            raise CommandError(f"headrace {' '.join(arguments)} ended with exit code {code}", returncode=code)

    def _run(self, arguments: list[str], program: str) -> int:
        discover()
        return run(["--app", APP, *arguments], program=f"{program} headrace")


def own_arguments(arguments: list[str]) -> list[str]:
    """`arguments` without the options of Django's own that every command of Django's takes."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in _WITH_VALUE:
            next(rest, None)
        elif argument in _OURS:
            kept.append(_OURS[argument])
        elif argument not in _WITHOUT and argument.partition("=")[0] not in _WITH_VALUE:
            kept.append(argument)
    return kept
