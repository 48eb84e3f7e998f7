"""Where a server is and how to be let in, from a URL."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.errors import ConfigError

TIMEOUT_S = 10.0
CONNECT_S = 5
POOL_SIZE = 5

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}
_OURS = {"pgbouncer", "listen", "timeout", "pool_size"}

# The plans of our statements are known: each reads an index in order, and joins a handful of rows to it one by one.
# Statistics that lag behind a queue that fills and empties within seconds must not talk the planner out of that.
PINS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

_DEFAULTS: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "application_name": "headrace",
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class Address(msgspec.Struct, frozen=True):
    """A server's address: what libpq is told, and what is for us."""

    parameters: dict[str, Any]
    pgbouncer: bool = False  # a pooler gives every transaction another session: nothing may be left in one
    listen: str | None = None  # where to listen for hints, if not here
    timeout: float = TIMEOUT_S  # seconds without an answer after which a connection is given up
    pool_size: int = POOL_SIZE  # most connections of one event loop, and of all threads together

    def __str__(self) -> str:
        of = self.parameters
        user = f"{of.get('user', '')}:***@" if "password" in of else f"{of['user']}@" if "user" in of else ""
        host = str(of.get("host", "localhost"))
        host = f"[{host}]" if ":" in host else host
        port = f":{of['port']}" if "port" in of else ""
        return f"postgresql://{user}{host}{port}/{of.get('dbname', '')}"

    def connecting(self) -> dict[str, Any]:
        """All parameters of a connection. A pooler takes no `options`: there, transactions pin their plans."""
        parameters = _DEFAULTS | self.parameters | {"client_encoding": "utf8"}
        if not self.pgbouncer:
            limit = str(round(self.timeout * 1000))
            # A process that is frozen between two statements must not keep its locks, nor dead rows, for ever.
            pins = PINS | {"statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
            pins["default_transaction_isolation"] = r"read\ committed"  # of statements outside transactions
            ours = " ".join(f"-c {name}={value}" for name, value in pins.items())
            parameters["options"] = f"{ours} {self.parameters.get('options', '')}".strip()
        return parameters

    def listening(self) -> dict[str, Any] | None:
        """The parameters of the connection that listens; None behind a pooler with no known way round it."""
        if self.listen is not None:
            return _DEFAULTS | conninfo_to_dict(self.listen) | {"client_encoding": "utf8"}
        return None if self.pgbouncer else _DEFAULTS | self.parameters | {"client_encoding": "utf8"}


def parse(url: str) -> Address:
    """Read postgresql:// or postgres:// with all that libpq allows in it, and options of ours.

    `?pgbouncer=1`: a pooler in transaction mode; `&listen=URL` (percent-encoded) is then the way round it for hints,
    else jobs are found by polling. `?timeout=10`: seconds without an answer after which a connection is given up.
    `?pool_size=5`: most connections of one event loop, and of all threads of a process together.

    Raises:
        ConfigError: it is no such URL, or an option is unknown or has no such value.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ConfigError(f"url starts with {parts.scheme!r}: use postgresql:// or postgres://")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in pairs if name in _OURS}
    rest = urlencode([(name, value) for name, value in pairs if name not in _OURS])
    return Address(_parameters(parts._replace(query=rest).geturl(), "url"), **_options(ours))


def _parameters(url: str, what: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError as error:
        raise ConfigError(f"{what} cannot be read: {str(error).strip()}") from None


def _options(given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, value in given.items():
        try:
            options[name] = _value(name, value)
        except ValueError:
            raise ConfigError(f"{name} is {value!r} in the URL: that is no value for it") from None
    return options


def _value(name: str, value: str) -> object:
    if name == "listen":
        _parameters(value, "listen")
        return value
    if name == "pgbouncer":
        if value.lower() not in _TRUE | _FALSE:
            raise ValueError(value)
        return value.lower() in _TRUE
    number = float(value) if name == "timeout" else int(value)
    if not 0 < number < 3600:
        raise ValueError(value)
    return number
