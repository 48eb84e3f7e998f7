"""A MariaDB that tests may break."""

from headrace.testing.servers import mariadb
from headrace.testing.servers.mariadb import MariaTemplate, find_mariadb
from tests.servers.base import Server

__all__ = ["MariaServer", "MariaTemplate", "find_mariadb"]


class MariaServer(Server, mariadb.MariaServer):
    """One MariaDB. By default `kill` costs it the last second; not with `innodb_flush_log_at_trx_commit=2`."""
