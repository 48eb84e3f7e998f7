"""`headrace version`."""

from __future__ import annotations

import platform
import sqlite3
from importlib import metadata

import click

from headrace.cli.options import Settings, json_option, pass_settings
from headrace.cli.output import facts, say_json

_PACKAGES = ("headrace", "msgspec", "click", "hiredis", "uvloop", "rich")


@click.command()
@json_option
@pass_settings
def version(settings: Settings) -> None:
    """Print the versions of headrace and of what it uses; put them into bug reports."""
    versions = {name: _version(name) for name in _PACKAGES}
    versions |= {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "platform": platform.platform()}
    if settings.json:
        say_json(versions)
    else:
        facts((name, text or "not installed") for name, text in versions.items())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
