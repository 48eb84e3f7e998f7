"""Where a server is and how to be let in, from a URL."""

from __future__ import annotations

import socket
import ssl
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from headrace.errors import ConfigError, StoreUnavailable

TIMEOUT = 5.0
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_OPTIONS = {
    "db",
    "socket_timeout",
    "socket_connect_timeout",
    "allow_eviction",
    "client_name",
    "ssl_cert_reqs",
    "ssl_check_hostname",
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_password",
}


class Address(msgspec.Struct, frozen=True):
    """A server's address: `path` for a unix socket, else host and port."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    socket_timeout: float = TIMEOUT  # seconds without an answer after which a connection is given up
    connect_timeout: float = TIMEOUT
    allow_eviction: bool = False
    client_name: str = "headrace"
    cert_reqs: str = "required"
    check_hostname: bool = True
    ca_certs: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    key_password: str | None = None

    def __str__(self) -> str:
        user = f"{self.username or ''}:***@" if self.username or self.password else ""
        if self.path:
            return f"unix://{user}{self.path}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{user}{host}:{self.port}/{self.db}"

    def greeting(self) -> list[tuple[str, ...]]:
        """The commands that open a connection: AUTH, the database, a name for CLIENT LIST."""
        commands: list[tuple[str, ...]] = []
        if self.password is not None:
            user = (self.username,) if self.username else ()
            commands.append(("AUTH", *user, self.password))
        if self.db:
            commands.append(("SELECT", str(self.db)))
        commands.append(("CLIENT", "SETNAME", self.client_name))
        return commands

    def tls_context(self) -> ssl.SSLContext | None:
        """How the server proves itself, and we to it; None without TLS."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca_certs)
        context.check_hostname = self.check_hostname and self.cert_reqs != "none"
        context.verify_mode = _VERIFY[self.cert_reqs]
        if self.certfile:
            context.load_cert_chain(self.certfile, self.keyfile, self.key_password)
        return context

    def connect(self) -> socket.socket:
        """A connected blocking socket. `socket_timeout` holds for every wait on it.

        Raises:
            StoreUnavailable: nobody answers there, or the certificate is not trusted.
        """
        try:
            if self.path:
                plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                plain.settimeout(self.connect_timeout)
                plain.connect(self.path)
            else:
                plain = socket.create_connection((self.host, self.port), self.connect_timeout)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            context = self.tls_context()
            secure = context.wrap_socket(plain, server_hostname=self.host) if context else plain
        except OSError as error:
            raise StoreUnavailable(f"no connection to {self}: {error}") from error
        secure.settimeout(self.socket_timeout)
        return secure


def parse(url: str) -> Address:
    """Read redis://, rediss:// (TLS) or unix:// with user, password, database and options.

    `redis://USER:PASSWORD@HOST:PORT/DB?socket_timeout=5`, `unix://PATH?db=1`; user and password percent-encoded.

    Raises:
        ConfigError: it is no such URL, or an option is unknown or has no such value.
    """
    if not isinstance(url, str):
        # B104: a client may decode answers, retry by itself, or be shared; its settings cannot be trusted.
        raise ConfigError(
            f"url is of type {type(url).__name__}: hand over the URL, not a client; headrace opens its own"
        )
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ConfigError(f"url starts with {parts.scheme!r}: use redis://, rediss:// or unix://")
    options = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    for name in options:
        _check_option(name)
    try:
        place = _place(parts.scheme, parts.hostname, parts.port, parts.path)
    except ValueError as error:
        raise ConfigError(f"url has no valid port or database: {error}") from error
    password = unquote(parts.password) if parts.password else None
    return Address(
        **place | _options(options),
        username=unquote(parts.username) if parts.username else None,
        password=password,
        tls=parts.scheme == "rediss",
    )


def _check_option(name: str) -> None:
    if name == "decode_responses":
        raise ConfigError("decode_responses is set: remove it, stored jobs are bytes and not always text")
    if name not in _OPTIONS:
        raise ConfigError(f"{name} is no option of a Redis URL: use one of {', '.join(sorted(_OPTIONS))}")


def _place(scheme: str, host: str | None, port: int | None, path: str) -> dict[str, Any]:
    if scheme == "unix":
        if host or not path.strip("/"):
            # without a path it would be a TCP connection to localhost, and a first folder would be taken for a host
            raise ConfigError(
                "url names no socket: write unix:///path/to/redis.sock, with three slashes and the absolute path"
            )
        return {"path": unquote(path)}
    place: dict[str, Any] = {"host": unquote(host) if host else "localhost", "port": port or 6379}
    if path.strip("/"):
        place["db"] = int(path.strip("/"))
    return place


def _options(options: dict[str, str]) -> dict[str, Any]:
    """Options of the URL as fields of an address."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        field = name.removeprefix("ssl_") if name != "ssl_password" else "key_password"
        field = "connect_timeout" if field == "socket_connect_timeout" else field
        try:
            found[field] = _value(name, value)
        except ValueError:
            raise ConfigError(f"{name} is {value!r} in the URL: that is no value for it") from None
    if "socket_timeout" in found:
        found.setdefault("connect_timeout", found["socket_timeout"])
    return found


def _value(name: str, value: str) -> object:
    if name == "db":
        return int(value)
    if name in {"socket_timeout", "socket_connect_timeout"}:
        seconds = float(value)
        if not 0 < seconds < 3600:
            raise ValueError(value)
        return seconds
    if name in {"allow_eviction", "ssl_check_hostname"}:
        if value.lower() not in _TRUE | _FALSE:
            raise ValueError(value)
        return value.lower() in _TRUE
    if name == "ssl_cert_reqs" and value not in _VERIFY:
        raise ValueError(value)
    return value
