"""A PostgreSQL that tests may break."""

from typing import ClassVar

from headrace.testing.servers import postgres
from headrace.testing.servers.postgres import PostgresTemplate, find_postgres_binaries
from tests.servers.base import Server

__all__ = ["PostgresServer", "PostgresTemplate", "find_postgres_binaries"]


class PostgresServer(Server, postgres.PostgresServer):
    """One PostgreSQL. What it acknowledged outlives `kill`; with `fsync="on"` the machine's fall as well."""

    settings: ClassVar[dict[str, str]] = postgres.PostgresServer.settings | {"max_wal_size": "256MB"}  # lies in memory
