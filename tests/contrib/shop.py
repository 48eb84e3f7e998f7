"""What the shops of all frameworks share: where they keep what, handed over in the environment."""

from __future__ import annotations

import os

import msgspec
from sqlalchemy import Column, Integer, MetaData, Table

from headrace import Headrace

VARIABLE = "SHOP"
LIBRARIES = {
    "sqlite": ("sqlite", "sqlite+aiosqlite"),
    "postgresql": ("postgresql+psycopg", "postgresql+psycopg"),
    "mysql": ("mysql+pymysql", "mysql+asyncmy"),
}


class Settings(msgspec.Struct, frozen=True):
    """The places of one shop."""

    data: str  # URL of the database with its orders
    jobs: str
    outbox: str | None
    name: str  # of the app, and prefix of the tables
    held: str  # a file that is made when a request is held before its commit

    @classmethod
    def read(cls) -> Settings:
        """In a process of the shop."""
        return msgspec.json.decode(os.environ[VARIABLE], type=cls)

    def environment(self) -> dict[str, str]:
        """For a process of the shop."""
        return {VARIABLE: msgspec.json.encode(self).decode()}

    def headrace(self) -> Headrace:
        """The app, with a lease that a test can wait for."""
        return Headrace(self.jobs, name=self.name, outbox=self.outbox, lease=3, busy_timeout=1)

    def engine_url(self, *, awaited: bool = False) -> str:
        """For SQLAlchemy."""
        scheme, _, rest = self.data.partition(":")
        return f"{LIBRARIES[scheme][awaited]}:{rest}"

    def tables(self, metadata: MetaData) -> tuple[Table, Table]:
        """Orders, and the mails that were sent for them."""
        orders = Table(
            f"{self.name}_orders", metadata, Column("number", Integer, primary_key=True, autoincrement=False)
        )
        mails = Table(f"{self.name}_mails", metadata, Column("number", Integer))
        return orders, mails
