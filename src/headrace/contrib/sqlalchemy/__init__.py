"""What an engine of SQLAlchemy needs beside headrace, which on PostgreSQL and MySQL is nothing.

See docs/transactions.md.
"""

from headrace.contrib.sqlalchemy.sqlite import READING, share_sqlite

__all__ = ["READING", "share_sqlite"]
