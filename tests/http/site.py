"""What the ASGI and the WSGI app under test share: their settings, and a note of every run of a handler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Column, Integer, MetaData, String, Table

from headrace.http import by_header
from tests.contrib.serving import PATIENCE
from tests.contrib.shop import Settings
from tests.waiting import wait_until

LEASE = 4  # seconds: a loaded machine may be late with a renewal, which is due after a third of it
BIG = 300  # bytes: more than "tiny" keeps
LARGE = 200_000  # bytes: as much as is kept by default
# by the first part of the path
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"lease": LEASE},
    "never": {"name": "never", "replay_errors": "never", "lease": LEASE},
    "required": {"name": "required", "required": lambda head: head.path.endswith("/orders")},
    "tenant": {"name": "tenant", "principal": by_header("X-Tenant")},
    "tiny": {"name": "tiny", "max_request": 10, "max_response": BIG - 1},
    "unguarded": {"name": "unguarded", "outage": "run"},
}


class Site:
    """One server process of the app under test."""

    def __init__(self) -> None:
        self.settings = Settings.read()
        self.folder = Path(self.settings.held).parent
        self.jobs = self.settings.headrace()

    def note(self, effect: str) -> None:
        """A handler has begun to have its effect."""
        with (self.folder / "effects").open("a") as file:
            file.write(f"{effect}\n")

    def hold(self, name: str) -> None:
        """Say that we have come here, and wait for leave to go on."""
        (self.folder / f"{name}.held").touch()
        wait_until((self.folder / f"{name}.go").exists, PATIENCE, f"leave for {name}")

    def table(self) -> Table:
        """What handlers write in transactions of their own."""
        return Table(
            f"{self.settings.name}_orders",
            MetaData(),
            Column("id", Integer, primary_key=True),
            Column("effect", String(50)),
        )

    @property
    def large_file(self) -> Path:
        path = self.folder / "large"
        if not path.exists():
            path.write_bytes(b"f" * 70_000)
        return path
