"""Django in the process of the tests: the shop's settings, and databases that are added as tests bring them."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent


def set_up() -> None:
    """May be called again and again."""
    import django
    from django.conf import settings

    if settings.configured:
        return
    sys.path.append(str(HERE))
    os.environ["DJANGO_SETTINGS_MODULE"] = "djangoshop.settings"
    django.setup()
    del os.environ["DJANGO_SETTINGS_MODULE"]  # of no concern to programs that other tests start


def entry(url: str) -> dict[str, Any]:
    """A database as it stands in DATABASES: that of a URL, or a SQLite file."""
    if "://" not in url:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    parts = urlsplit(url)
    engine = "postgresql" if parts.scheme.startswith("postgres") else "mysql"
    if engine == "mysql":
        import pymysql

        pymysql.install_as_MySQLdb()
    return {
        "ENGINE": f"django.db.backends.{engine}",
        "NAME": parts.path.strip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


_users: Counter[str] = Counter()


def add(alias: str, url: str) -> None:
    """Let Django know a database under this alias, until as many have removed it as have added it."""
    set_up()
    from django.db import connections

    if alias not in connections:
        connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry(url)})[alias]
    _users[alias] += 1


def remove(alias: str) -> None:
    """Close this thread's connection, and forget the database where nobody else has it."""
    from django.db import connections

    connections[alias].close()
    del connections[alias]
    _users[alias] -= 1
    if not _users[alias]:
        del connections.settings[alias]


@contextmanager
def own_tables(folder: Path) -> Iterator[None]:
    """The shop's tables and ours in a file of the test's own: the app follows, as it does to the database of tests."""
    from django.core.management import call_command
    from django.db import connection

    from headrace.contrib.django import app

    before = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = str(folder / "shop.sqlite3")
    try:
        call_command("migrate", verbosity=0)
        yield
    finally:
        app.close()
        connection.close()
        connection.settings_dict["NAME"] = before


def work() -> None:
    """Run what is ready, to the end."""
    from headrace.contrib.django import app

    async def run() -> None:
        await app.worker(burst=True).run()
        await app.aclose()

    asyncio.run(run())
