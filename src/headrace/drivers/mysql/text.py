"""Turns steps into the text that is sent. Values become literals that no setting of the server reads in another way.

Bytes travel as hexadecimal digits, so there is nothing to escape; names of plain letters and digits as they are, so
that a server's list of slow statements can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.drivers.paramstyle import pyformat
from headrace.stores.plan import Statement, Step

PACKET = 4_000_000  # bytes of statements sent together
TOGETHER = 200  # statements

_COMMENT = re.compile(r"^--[^\n]*\n", re.MULTILINE)  # they are for readers, not for servers
_PLAIN = re.compile(rb"[A-Za-z0-9_.:/@\-]{1,200}\Z")


def literal(value: Any) -> str:
    """A value as SQL: None, int, bytes, str of ASCII, or a list of these in parentheses."""
    if type(value) is int:
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return f"'{value.decode()}'" if _PLAIN.match(value) else f"x'{value.hex()}'"
    if isinstance(value, list | tuple):
        return f"({','.join(map(literal, value))})"
    raise TypeError(f"a {type(value).__name__} is no value for a statement")


class Texts:
    """Every statement of a store, compiled once."""

    def __init__(self, sql: Mapping[str, str]) -> None:
        self._texts = {name: pyformat(_COMMENT.sub("", text)) for name, text in sql.items()}

    def packets(self, step: Step) -> Iterator[str]:
        """What to send, one after the other."""
        if not isinstance(step, Statement):
            raise TypeError(f"a {type(step).__name__} is no step for MySQL")
        text = self._texts[step.sql]
        if step.many is None:
            params = {name: literal(value) for name, value in (step.params or {}).items()}
            yield text % params
        elif "%(rows)s" in text:
            yield text % {"rows": ",".join(map(literal, step.many))}
        else:
            yield from self._together(text, step.many)

    @staticmethod
    def _together(text: str, rows: Sequence[Any]) -> Iterator[str]:
        """One statement for each row; a few hundred travel together."""
        some: list[str] = []
        size = 0
        for row in rows:
            statement = text % {name: literal(value) for name, value in row.items()}
            if some and (size + len(statement) > PACKET or len(some) == TOGETHER):
                yield ";".join(some)
                some, size = [], 0
            some.append(statement)
            size += len(statement)
        if some:
            yield ";".join(some)
