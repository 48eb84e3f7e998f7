"""The SQLite store: operations as plans of named statements over one file."""

from headrace.stores.sqlite.plans import SQLiteStore

__all__ = ["SQLiteStore"]
