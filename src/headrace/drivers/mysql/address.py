"""Where a server is and how to be let in, from a URL."""

from __future__ import annotations

from ssl import CERT_NONE, SSLContext, create_default_context
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from headrace.errors import ConfigError

PORT = 3306
CONNECT_S = 5.0
READ_S = 15.0
LOCK_S = 5
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


class Address(msgspec.Struct, frozen=True):
    """A server's address: `unix_socket` for a unix socket, else host and port."""

    scheme: str = "mysql"
    host: str = "localhost"
    port: int = PORT
    unix_socket: str | None = None
    database: str = ""
    user: str | None = None
    password: str = ""
    connect_timeout: float = CONNECT_S  # seconds
    read_timeout: float = READ_S  # seconds without an answer after which a connection is given up
    lock_wait: int = LOCK_S  # seconds that a statement waits for somebody else's lock, before it is tried again
    ssl: bool = False
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    ssl_verify: bool = True

    def __str__(self) -> str:
        user = f"{quote(self.user)}:***@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"?unix_socket={quote(self.unix_socket, safe='/')}" if self.unix_socket else ""
        return f"{self.scheme}://{user}{host}:{self.port}/{quote(self.database)}{place}"

    def tls_context(self) -> SSLContext | None:
        """How the server proves itself, and we to it; None without TLS."""
        if not (self.ssl or self.ssl_ca or self.ssl_cert):
            return None
        context = create_default_context(cafile=self.ssl_ca)
        if not self.ssl_verify:
            context.check_hostname = False
            context.verify_mode = CERT_NONE
        if self.ssl_cert:
            context.load_cert_chain(self.ssl_cert, self.ssl_key)
        return context

    def arguments(self) -> dict[str, Any]:
        """What both client libraries call by the same names."""
        found: dict[str, Any] = {
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "charset": "utf8mb4",
            "autocommit": True,
            "ssl": self.tls_context(),
            "program_name": "headrace",
            "read_timeout": self.read_timeout,
        }
        if self.unix_socket:
            return found | {"unix_socket": self.unix_socket}
        return found | {"host": self.host, "port": self.port}


def parse(url: str) -> Address:
    """Read mysql:// or mariadb:// with user, password, database and options.

    `mysql://USER:PASSWORD@HOST:PORT/DATABASE?read_timeout=15`, user and password percent-encoded. Options, times in
    seconds: `connect_timeout` (5), `read_timeout` (15), `lock_wait` (5), `unix_socket`, `ssl` (0), `ssl_ca`,
    `ssl_cert`, `ssl_key` (files), `ssl_verify` (1).

    Raises:
        ConfigError: it is no such URL, it names no database, or an option is unknown or has no such value.
    """
    if not isinstance(url, str):
        raise ConfigError(
            f"url is of type {type(url).__name__}: hand over the URL, not a client; headrace opens its own"
        )
    parts = urlsplit(url)
    if parts.scheme not in {"mysql", "mariadb"}:
        raise ConfigError(f"url starts with {parts.scheme!r}: use mysql:// or mariadb://")
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise ConfigError(f"url names no database: write {parts.scheme}://USER:PASSWORD@HOST/DATABASE")
    try:
        port = parts.port or PORT
    except ValueError as error:
        raise ConfigError(f"url has no valid port: {error}") from error
    options = {name: _value(name, values[-1]) for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    return Address(
        scheme=parts.scheme,
        host=unquote(parts.hostname) if parts.hostname else "localhost",
        port=port,
        database=database,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else "",
        **options,
    )


def _value(name: str, value: str) -> Any:
    if name in {"unix_socket", "ssl_ca", "ssl_cert", "ssl_key"}:
        return value
    if name in {"ssl", "ssl_verify"} and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    if name in {"connect_timeout", "read_timeout", "lock_wait"}:
        try:
            seconds = int(value) if name == "lock_wait" else float(value)
        except ValueError:
            seconds = -1
        if 0 < seconds < 3600:
            return seconds
    elif name not in {"ssl", "ssl_verify"}:
        known = ("connect_timeout", "lock_wait", "read_timeout", *sorted(_TLS), "unix_socket")
        raise ConfigError(f"{name} is no option of a MySQL URL: use one of {', '.join(known)}")
    raise ConfigError(f"{name} is {value!r} in the URL: that is no value for it")


_TLS = {"ssl", "ssl_ca", "ssl_cert", "ssl_key", "ssl_verify"}
