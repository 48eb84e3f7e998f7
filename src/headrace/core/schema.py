"""The schema of a database, as data: operations and answers that every SQL store has plans for."""

from __future__ import annotations

import msgspec

from headrace.core.operations import Operation


class SchemaView(msgspec.Struct, frozen=True):
    """What is there, and what this code knows. Version 0 is no schema at all."""

    version: int
    oldest: int  # code that knows this version may still use the schema
    known: int

    @property
    def usable(self) -> bool:
        """Whether this code may use what is there, as it is or once it is upgraded."""
        return self.oldest <= self.known


class ReadSchema(msgspec.Struct, Operation[SchemaView], frozen=True):
    """Look at the schema, and change nothing."""

    writes = False
    needs_schema = False


class Upgrade(msgspec.Struct, Operation[SchemaView], frozen=True):
    """Bring the schema up to the version this code knows. Answers what was there before; safe to repeat."""

    needs_schema = False


class Downgraded(msgspec.Struct, frozen=True):
    """Where a downgrade came from and got to; `lost` counts what it deleted, or what it refused to delete."""

    before: int
    after: int
    lost: dict[str, int]  # by what it is: "jobs", "failed jobs", "events", "received messages"


class Downgrade(msgspec.Struct, Operation[Downgraded], frozen=True):
    """Take the schema back to version `target`, 0 for none; a target that is not below what is there changes nothing.

    Unless `losing`, it stops before the first step that would delete what is counted in the answer.
    """

    needs_schema = False
    target: int
    losing: bool = False
