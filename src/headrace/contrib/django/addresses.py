"""The URL of a database of Django, so that nobody has to write an address twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from headrace.errors import ConfigError

SCHEMES = {"sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mysql"}  # by Django's vendor
# what Django hands to MySQL's library, and what of it a URL can say
_MYSQL = {"connect_timeout": "connect_timeout", "read_timeout": "read_timeout", "unix_socket": "unix_socket"}
_MYSQL_TLS = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}


def url_of(alias: str) -> str:
    """Where the database `alias` is now: under `manage.py test`, that is the one of the tests.

    Raises:
        ConfigError: it is in memory, or of a kind that we do not know.
    """
    from django.db import connections  # noqa: PLC0415

    connection = connections[alias]
    if connection.vendor not in SCHEMES:
        raise ConfigError(
            f"the database {alias!r} is of {connection.vendor}, where no jobs can be: set URL in HEADRACE, such as "
            "'redis://localhost'"
        )
    settings = connection.settings_dict
    return {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mysql}[connection.vendor](alias, settings)


def _sqlite(alias: str, settings: Mapping[str, Any]) -> str:
    name = str(settings["NAME"])
    if name == ":memory:" or "mode=memory" in name:
        raise ConfigError(
            f"the database {alias!r} is in memory, where no other connection finds jobs: give it a file; for tests "
            'that is "TEST": {"NAME": BASE_DIR / "test.sqlite3"} in DATABASES, or a tasks backend that runs at once'
        )
    return f"sqlite:///{Path(name).absolute()}"


def _postgresql(alias: str, settings: Mapping[str, Any]) -> str:
    try:
        from psycopg.pq import Conninfo  # noqa: PLC0415
    except ImportError as error:  # Django may do with its predecessor
        raise ConfigError(
            f"the database {alias!r} is on PostgreSQL, and psycopg 3 is missing ({error}): "
            "pip install headrace[postgres]"
        ) from None
    libpq = {option.keyword.decode() for option in Conninfo.get_defaults()}
    options = {name: value for name, value in settings["OPTIONS"].items() if name in libpq}
    options |= {name.lower(): settings[name] for name in ("HOST", "PORT") if settings[name]}
    return _joined("postgresql", settings, "", options)


def _mysql(alias: str, settings: Mapping[str, Any]) -> str:
    given = settings["OPTIONS"]
    if not settings["NAME"] or "read_default_file" in given:
        raise ConfigError(
            f"what is known of the database {alias!r} is in a file of MySQL's: set URL in HEADRACE beside "
            f"'DATABASE': {alias!r}, such as 'mysql://user:password@host/database'"
        )
    options = {ours: given[theirs] for theirs, ours in _MYSQL.items() if theirs in given}
    tls = given.get("ssl")
    if isinstance(tls, Mapping):
        options |= {ours: tls[theirs] for theirs, ours in _MYSQL_TLS.items() if theirs in tls}
        options["ssl"] = 1
    host = str(settings["HOST"])
    if host.startswith("/"):
        options["unix_socket"], host = host, ""
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    return _joined("mysql", settings, f"[{host}]{port}" if ":" in host else f"{host or 'localhost'}{port}", options)


def _joined(scheme: str, settings: Mapping[str, Any], place: str, options: Mapping[str, Any]) -> str:
    user = quote(str(settings["USER"]), safe="")
    password = f":{quote(str(settings['PASSWORD']), safe='')}" if settings["PASSWORD"] else ""
    options_text = f"?{urlencode(options)}" if options else ""
    name = quote(str(settings["NAME"] or ""), safe="")
    return f"{scheme}://{user}{password}{'@' if user or password else ''}{place}/{name}{options_text}"
