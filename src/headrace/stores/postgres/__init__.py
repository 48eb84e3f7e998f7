"""The PostgreSQL store: operations as plans of named statements, most of them one statement long."""

from headrace.stores.postgres.plans import PostgresStore

__all__ = ["PostgresStore"]
