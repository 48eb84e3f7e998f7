"""Registers: small named records that all workers share, such as the state of a circuit.

A register is changed by a pure function of its content and the store's now, so that its rules are written once and no
store knows them. A store reads, lets the change decide, and writes, as one atomic step. An answer may be lost and its
operation sent again, so a change must know itself again: by an id, or because the second time changes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core.operations import Operation

NAME = 300  # bytes of a register's name at most


class Changed(msgspec.Struct, frozen=True):
    """What a change makes of a register. `body` None: it is forgotten; the same body as before: nothing is written.

    `keep_us`: it is forgotten when nobody has written to it for so long.
    """

    body: bytes | None
    answer: Any = None
    keep_us: int = 30 * 24 * 3600 * 1_000_000


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all changes. `register` is the name of the register."""

    register: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """The register's next content and the answer. `body` is None where there is none.

        Pure. It must put up with a body that another program wrote, and never raise.
        """
        raise NotImplementedError


class Amend(msgspec.Struct, Operation["list[Any]"], frozen=True):
    """Apply all changes, all or none; later ones see what earlier ones wrote. The answers stand in their order."""

    changes: tuple[Change, ...]


class RegisterView(msgspec.Struct, frozen=True):
    """One register. `until_us`: forgotten then, if nobody writes to it."""

    name: str
    body: bytes
    until_us: int


class LookRegisters(msgspec.Struct, Operation["list[RegisterView]"], frozen=True):
    """The registers whose names begin with `prefix`, sorted by name, at most `limit`, those beyond `after`."""

    writes = False
    prefix: str = ""
    limit: int = 1000
    after: str = ""
