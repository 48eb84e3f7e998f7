"""Private throwaway servers for the tests: a process of our own, a free loopback port, a directory that is thrown away.

Tests may kill, freeze and restart them, so none of them is ever somebody's real server.
"""

from tests.servers.base import Server, ServerDied, free_port, private_directory
from tests.servers.mariadb import MariaServer, MariaTemplate, find_mariadb
from tests.servers.pgbouncer import PgBouncerServer, find_pgbouncer
from tests.servers.postgres import PostgresServer, PostgresTemplate, find_postgres_binaries
from tests.servers.redis import RedisServer, find_redis_binary

__all__ = [
    "MariaServer",
    "MariaTemplate",
    "PgBouncerServer",
    "PostgresServer",
    "PostgresTemplate",
    "RedisServer",
    "Server",
    "ServerDied",
    "find_mariadb",
    "find_pgbouncer",
    "find_postgres_binaries",
    "find_redis_binary",
    "free_port",
    "private_directory",
]
