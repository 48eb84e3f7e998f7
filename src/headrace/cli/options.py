"""Options that several commands share, and what they are set to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.exits import ExitCode

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.jobs import Jobs

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST_S = 1_000 * 365 * 86_400
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMG]?)(?:I?B)?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass
class Settings:
    """What the shared options of this call are set to, wherever on the line they stood."""

    app_spec: str | None = None
    json: bool = False
    verbose: bool = field(default_factory=lambda: os.environ.get("HEADRACE_DEBUG", "") not in ("", "0"))
    _app: Headrace | None = None

    def app(self) -> Headrace:
        """The user's app; closed when the command ends."""
        from headrace.cli.locate import locate

        if self._app is None:
            self._app = locate(self.app_spec)
            click.get_current_context().call_on_close(self._app.close)
        return self._app

    def jobs(self) -> Jobs:
        """The app's jobs."""
        return self.app().jobs


pass_settings = click.make_pass_decorator(Settings, ensure=True)


class NotFound(click.ClickException):
    """There is no such job."""

    exit_code = ExitCode.NOT_FOUND


def _into(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.ensure_object(Settings), name, value)

    return store


app_option = click.option(
    "--app",
    metavar="MODULE:APP",
    expose_value=False,
    callback=_into("app_spec"),
    help="Where the app is, such as shop.jobs:app. Default: HEADRACE_APP, then [tool.headrace] in pyproject.toml.",
)
json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_into("json"), help="Print JSON, one value a line."
)
verbose_option = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=_into("verbose"),
    help="Debug lines, and tracebacks of errors.",
)

alerts_option = click.option(
    "--alerts",
    metavar="FILE",
    envvar="HEADRACE_ALERTS",
    help="Rules and sinks of alerts, in TOML, in place of those in the code. Default: HEADRACE_ALERTS.",
)


def common(command: F) -> F:
    """The options of every command that looks at the store: --app, --json, --verbose."""
    return app_option(json_option(verbose_option(command)))


def duration(text: str) -> float:
    """Seconds as a number, or with units: `90`, `5m`, `1h30m`, `250ms`, `30d`. Serves as the type of an option."""
    from headrace.core.durations import seconds
    from headrace.errors import ConfigError

    try:
        result = seconds(float(text) if _is_number(text) else text)
    except (ConfigError, ValueError, OverflowError):
        result = -1.0
    if not 0 <= result < _LONGEST_S:
        raise click.BadParameter(f"{text!r} is no duration: write seconds or a text such as 90s, 5m, 1h30m, 30d")
    return result


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def size(text: str) -> int:
    """Bytes as a number, or with a unit of 1024: `500M`, `2G`, `512MiB`. Serves as the type of an option."""
    shape = _SIZE.fullmatch(text.strip().upper())
    result = int(float(shape[1]) * _UNITS[shape[2]]) if shape else 0
    if result <= 0:
        raise click.BadParameter(f"{text!r} is no size: write bytes or a text such as 500M or 2G")
    return result
