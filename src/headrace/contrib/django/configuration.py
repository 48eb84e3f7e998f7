"""The setting HEADRACE, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.errors import ConfigError

ARGUMENTS = (  # of Headrace, in small letters
    *("NAME", "LEASE", "HEARTBEAT", "RESEND", "BUSY_TIMEOUT", "OUTBOX_MODE"),
    *("VERSION", "KEEP_FAILED", "KEEP_FAILED_MOST", "HOLD_AFTER"),
)
KNOWN = ("DATABASE", "URL", "OUTBOX", "ENQUEUE_IN_TRANSACTION", *ARGUMENTS)


class Configuration(msgspec.Struct, frozen=True):
    """What the project says. At least one of `database` and `url` is set; aliases are those of DATABASES."""

    database: str | None  # the jobs are there
    url: str | None  # how to reach them: where they are elsewhere, or through a pooler
    outbox: str | None  # holds the outbox, where the jobs are elsewhere
    joins: bool  # jobs that are enqueued inside of atomic() belong to its transaction
    arguments: dict[str, Any]

    @property
    def alias(self) -> str | None:
        """The database that has our tables, where it is one of Django's."""
        return self.outbox if self.database is None else self.database


def configuration() -> Configuration:
    """What `settings.HEADRACE` says; without it, the jobs are in the database "default".

    Raises:
        ConfigError: it says something that we do not understand.
    """
    from django.conf import settings  # noqa: PLC0415 - settings may be used now

    return read(getattr(settings, "HEADRACE", {}), settings.DATABASES)


def read(given: Any, databases: Mapping[str, Any]) -> Configuration:
    """The same for these settings."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"HEADRACE is {given!r}: write a dict such as {{'DATABASE': 'default'}}")
    for name in given:
        if name not in KNOWN:
            raise ConfigError(f"HEADRACE has {name!r}, which is none of {', '.join(KNOWN)}")
    url, outbox = given.get("URL"), given.get("OUTBOX")
    database = given.get("DATABASE", "default" if url is None else None)
    if database is None and url is None:
        raise ConfigError("HEADRACE has neither DATABASE nor URL: say where the jobs are")
    if database is not None and outbox is not None:
        raise ConfigError("HEADRACE has DATABASE and OUTBOX: an outbox is for jobs that are in no database of yours")
    for key, alias in (("DATABASE", database), ("OUTBOX", outbox)):
        if alias is not None and alias not in databases:
            raise ConfigError(f"{key} in HEADRACE is {alias!r}: there is no such alias in DATABASES")
    arguments = {name.lower(): given[name] for name in ARGUMENTS if name in given}
    return Configuration(database, url, outbox, bool(given.get("ENQUEUE_IN_TRANSACTION", True)), arguments)
