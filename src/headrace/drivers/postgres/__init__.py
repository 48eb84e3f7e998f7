"""The driver of PostgreSQL, on psycopg 3. See docs/decisions/0004-postgres.md."""

from headrace.drivers.postgres.driver import PostgresDriver

__all__ = ["PostgresDriver"]
