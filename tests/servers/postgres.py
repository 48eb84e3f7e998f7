"""A PostgreSQL that tests may break."""

from headrace.testing.servers import postgres
from headrace.testing.servers.postgres import PostgresTemplate, find_postgres_binaries
from tests.servers.base import Server

__all__ = ["PostgresServer", "PostgresTemplate", "find_postgres_binaries"]


class PostgresServer(Server, postgres.PostgresServer):
    """One PostgreSQL. What it acknowledged outlives `kill`; with `fsync="on"` the machine's fall as well."""
