"""The SQLite driver: one file, several processes, one transaction at a time."""

from headrace.drivers.sqlite.driver import SQLiteDriver

__all__ = ["SQLiteDriver"]
