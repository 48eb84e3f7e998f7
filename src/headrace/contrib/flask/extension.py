"""The extension: a headrace app that learns its settings from a Flask app."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from flask import Flask, current_app, has_app_context
from flask.ctx import AppContext

from headrace.app import Headrace
from headrace.config import Config
from headrace.context import JobContext
from headrace.contrib.flask.commands import command_for
from headrace.errors import ConfigError
from headrace.middleware import Middleware

PREFIX = "HEADRACE_"
NULLABLE = ("KEEP_FAILED", "KEEP_FAILED_MOST", "HOLD_AFTER")  # None says something: for ever, all, never
SETTINGS = (
    *("URL", "NAME", "LEASE", "HEARTBEAT", "RESEND", "BUSY_TIMEOUT", "VERSION"),
    *NULLABLE,
    *("OUTBOX", "OUTBOX_MODE"),
)
COMMAND_VARIABLES = ("APP", "DEBUG", "ALERTS")  # of the environment, all of which some projects load into the config


class FlaskHeadrace(Headrace):
    """A `Headrace` without settings, until `init_app` reads them from a Flask app's config.

        jobs = FlaskHeadrace()

        @jobs.task
        def send_confirmation(order_id: int) -> None: ...

        def create_app() -> Flask:
            app = Flask(__name__)
            app.config["HEADRACE_URL"] = "postgresql://localhost/shop"
            jobs.init_app(app)
            return app

    Settings are the arguments of `Headrace`, in capitals: HEADRACE_URL, which must be there, HEADRACE_NAME, _LEASE,
    _HEARTBEAT, _RESEND, _BUSY_TIMEOUT, _OUTBOX, _OUTBOX_MODE.

    Handlers run inside an app context of their own, entered in the thread that runs them, so that `current_app`, `g`
    and what hangs on the end of the context (a scoped session) work as in a request. `flask headrace work` and its like
    are the commands of `headrace`.
    """

    def __init__(self, app: Flask | None = None) -> None:
        super().__init__("memory://")  # stands for "none yet": nothing is stored there
        self._flask: Flask | None = None
        self._configs: WeakKeyDictionary[Flask, Config] = WeakKeyDictionary()
        self.middleware.append(_InAppContext(self))
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Take the settings of `app`, and give it the commands.

        May be called again, with another app: a factory does so in each test. The app that came last is the one whose
        store is used and whose context handlers run in; one with other settings that came before it gets an error as
        soon as it enqueues.

        Raises:
            ConfigError: a setting is missing, unknown or out of range; names the key.
        """
        config = _config(app)
        self._configs[app] = config
        if config != self.config:
            self._move_to(config)
        self._flask = app
        app.extensions["headrace"] = self
        app.cli.add_command(command_for(self))

    @property
    def flask_app(self) -> Flask:
        """The app that came last.

        Raises:
            ConfigError: there has been none.
        """
        if self._flask is None:
            raise ConfigError(
                "no Flask app has been given to this FlaskHeadrace yet: call its init_app(app) where the app is made. "
                "`flask --app NAME headrace work` makes the app first; `headrace work --app MODULE:NAME` needs a "
                "module that has made it"
            )
        return self._flask

    def _before_use(self) -> None:
        """Refuse to serve an app whose settings are not those that came last."""
        last = self.flask_app
        if not has_app_context():
            return
        mine = self._configs.get(current_app._get_current_object())  # type: ignore[attr-defined]  # noqa: SLF001
        if mine is not None and mine != self.config:
            raise ConfigError(
                f"this Flask app's jobs belong in another store than those of {last.import_name!r}, which called "
                "init_app after it: use one FlaskHeadrace for each, or one process"
            )


class _InAppContext(Middleware):
    """Each run in an app context of its own."""

    def __init__(self, headrace: FlaskHeadrace) -> None:
        self._headrace = headrace

    def inside(self, job: JobContext) -> AppContext:
        """In the thread of the handler: what ends with the context may belong to that thread."""
        return self._headrace.flask_app.app_context()


def _config(app: Flask) -> Config:
    known = {PREFIX + name for name in (*SETTINGS, *COMMAND_VARIABLES)}
    unknown = sorted(key for key in app.config if key.startswith(PREFIX) and key not in known)
    if unknown:
        names = ", ".join(PREFIX + name for name in SETTINGS)
        raise ConfigError(f"the config of {app.import_name!r} has {', '.join(unknown)}; headrace knows {names}")
    found = {name: app.config[PREFIX + name] for name in SETTINGS if PREFIX + name in app.config}
    given: dict[str, Any] = {
        name.lower(): value for name, value in found.items() if value is not None or name in NULLABLE
    }
    if "url" not in given:
        raise ConfigError(
            f"the config of {app.import_name!r} has no HEADRACE_URL: say where jobs live, such as "
            '"postgresql://localhost/shop" or "sqlite:///shop.db"'
        )
    try:
        return Headrace(**given).config
    except ConfigError as error:
        raise ConfigError(f"in the config of {app.import_name!r}, {PREFIX}... : {error}") from error
