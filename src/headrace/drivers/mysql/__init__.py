"""The driver of MySQL and MariaDB: PyMySQL for synchronous callers, asyncmy for asynchronous ones."""

from headrace.drivers.mysql.driver import MySQLDriver

__all__ = ["MySQLDriver"]
