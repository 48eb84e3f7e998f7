"""The MySQL and MariaDB store: plans and SQL text that both accept, no connection."""

from headrace.stores.mysql.plans import MySQLStore

__all__ = ["MySQLStore"]
