"""The settings of an app, checked one against the other."""

from __future__ import annotations

import re

import msgspec

from headrace.errors import ConfigError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_\-]{0,62}\Z")
# SQLite tells no case apart, and takes no '-' in names; a server's names have 63 or 64 characters at most
_TABLE_NAME = re.compile(r"(?!sqlite(_|\Z))[a-z][a-z0-9_]{0,39}\Z")
_DATABASES = {
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "mysql": "MySQL",
    "mariadb": "MariaDB",
}

LEAST_LEASE_S = 1.0
HEARTBEATS_PER_LEASE = 3  # two beats may be lost before a lease is (B042)
BUSY_TIMEOUTS_PER_LEASE = 3  # on SQLite a beat may wait for the file that long


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What an app was made with. Durations in seconds.

    Raises:
        ConfigError: a value is out of range or contradicts another; names the field, the value and the fix.
    """

    url: str
    name: str = "headrace"  # prefix of keys and tables
    lease_s: float = 30.0  # a worker that is not heard of for so long has lost its jobs
    heartbeat_s: float = 10.0
    resend_s: float = 5.0  # how long an enqueue is sent again to a store that does not answer
    busy_timeout_s: float = 5.0  # SQLite: how long a statement waits for the file
    version: str | None = None  # of the application's code
    keep_failed_s: float | None = 30 * 86_400.0  # how long workers keep failed jobs; None: for ever
    keep_failed_most: int | None = 100_000  # and how many of them, the newest; None: all
    hold_after: int | None = 3  # jobs of a task that were convicted of killing their workers, until it is held
    outbox: str | None = None  # the database with the outbox; None: that of the jobs
    outbox_mode: str = "relay"  # or "cdc"

    def __post_init__(self) -> None:
        if not isinstance(self.url, str):
            # a client may decode answers, retry by itself, or be shared: its settings cannot be trusted (B104)
            raise ConfigError(
                f"url is of type {type(self.url).__name__}: hand over the URL; headrace opens its own connections"
            )
        if not _NAME.match(self.name):
            raise ConfigError(
                f"name is {self.name!r}: use letters, digits, '_' and '-', a letter first, at most 63 in all"
            )
        database = _DATABASES.get(self.url.partition(":")[0])
        if database and not _TABLE_NAME.match(self.name):
            raise ConfigError(
                f"name is {self.name!r}, and on {database} it begins the names of tables: use small letters, digits "
                "and '_', at most 40 in all, not beginning with 'sqlite'"
            )
        if self.outbox_mode not in ("relay", "cdc"):
            raise ConfigError(f"outbox_mode is {self.outbox_mode!r}: use 'relay' or 'cdc'")
        if self.lease_s < LEAST_LEASE_S:
            raise ConfigError(f"lease is {self.lease_s:g} s: it must be at least {LEAST_LEASE_S:g} s")
        if self.heartbeat_s <= 0:
            raise ConfigError(f"heartbeat is {self.heartbeat_s:g} s: it must be greater than 0")
        most = self.lease_s / HEARTBEATS_PER_LEASE
        if self.heartbeat_s > most:
            raise ConfigError(
                f"heartbeat is {self.heartbeat_s:g} s with a lease of {self.lease_s:g} s: it must be at most "
                f"a third of the lease, so lower it to {most:g} or raise the lease to "
                f"{self.heartbeat_s * HEARTBEATS_PER_LEASE:g}"
            )
        self._check_hold_after()
        self._check_keep_failed()
        if self.busy_timeout_s <= 0:
            raise ConfigError(f"busy_timeout is {self.busy_timeout_s:g} s: it must be greater than 0")
        least = self.busy_timeout_s * BUSY_TIMEOUTS_PER_LEASE
        if self.url.startswith("sqlite:") and self.lease_s < least:
            raise ConfigError(
                f"lease is {self.lease_s:g} s on SQLite with a busy_timeout of {self.busy_timeout_s:g} s: it must "
                f"be at least three times that, so raise it to {least:g} or lower busy_timeout to "
                f"{self.lease_s / BUSY_TIMEOUTS_PER_LEASE:g}"
            )

    def _check_hold_after(self) -> None:
        if self.hold_after is not None and (type(self.hold_after) is not int or self.hold_after < 1):
            raise ConfigError(f"hold_after is {self.hold_after!r}: use a whole number of at least 1, or None for never")

    def _check_keep_failed(self) -> None:
        if self.keep_failed_s is not None and self.keep_failed_s <= 0:
            raise ConfigError(f"keep_failed is {self.keep_failed_s:g} s: it must be greater than 0, or None for ever")
        most = self.keep_failed_most
        if most is not None and (type(most) is not int or most < 0):
            raise ConfigError(f"keep_failed_most is {most!r}: use a whole number of 0 or more, or None for all")

    @property
    def lease_us(self) -> int:
        """The lease in microseconds."""
        return round(self.lease_s * 1_000_000)
