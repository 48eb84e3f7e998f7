"""Lists as array literals: one text for a whole column, many times as quick as one conversion for each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import DataError
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper


class ListDumper(Dumper):
    """Lists of one kind: text, integers, booleans or bytes, and None among them. The statement says which by a cast."""

    oid = 0

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)

    def dump(self, obj: Sequence[Any]) -> bytes:
        """The literal."""
        return literal(obj).encode()


def literal(values: Sequence[Any]) -> str:
    """`values` as PostgreSQL reads an array.

    Raises:
        DataError: a text holds a NUL character, which PostgreSQL cannot store.
    """
    sample = next((value for value in values if value is not None), None)
    if isinstance(sample, str):
        return _texts(values)
    if isinstance(sample, bytes):
        return _row(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values])
    if isinstance(sample, bool):
        return _row(["NULL" if value is None else "t" if value else "f" for value in values])
    return _row(["NULL" if value is None else str(value) for value in values])


def _row(parts: list[str]) -> str:
    return "{" + ",".join(parts) + "}"


def _texts(values: Sequence[str | None]) -> str:
    present = [value for value in values if value is not None]
    whole = "".join(present)
    if "\x00" in whole:
        raise DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    if '"' in whole or "\\" in whole:
        values = [value and value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    if len(present) == len(values):
        return '{"' + '","'.join(values) + '"}'  # type: ignore[arg-type]  # none of them is None
    return _row(["NULL" if value is None else f'"{value}"' for value in values])
