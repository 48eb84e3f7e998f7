"""Turns steps into the text that is sent. Values become literals that no setting of the server reads in another way.

Bytes travel as hexadecimal digits, so there is nothing to escape; names of plain letters and digits as they are, so
that a server's list of slow statements can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headrace.drivers.paramstyle import pyformat
from headrace.stores.plan import Statement, Step

PACKET = 4_000_000  # bytes of statements sent together
TOGETHER = 200  # statements
KEPT = 1_000_000  # bytes kept back at most

_COMMENT = re.compile(r"^--[^\n]*\n", re.MULTILINE)  # they are for readers, not for servers
_is_plain = re.compile(rb"[A-Za-z0-9_.:/@\-]{1,200}\Z").match


def _bytes(value: bytes) -> str:
    return f"'{value.decode()}'" if _is_plain(value) else f"x'{value.hex()}'"


def _list(values: Sequence[Any]) -> str:
    return f"({','.join([_WRITERS[type(value)](value) for value in values])})"


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    int: str,
    bytes: _bytes,
    type(None): lambda _: "null",
    str: lambda value: _bytes(value.encode()),
    list: _list,
    tuple: _list,
}


def literal(value: Any) -> str:
    """A value as SQL: None, int, bytes, str of ASCII, or a list of these in parentheses."""
    write = _WRITERS.get(type(value))
    if write is None:
        raise TypeError(f"a {type(value).__name__} is no value for a statement")
    return write(value)


def _table(rows: Sequence[Any]) -> str:
    """Tuples of values, written column by column: most columns of a batch hold one value throughout."""
    fields: list[str] = []
    varying: list[Iterable[str]] = []
    for column in zip(*rows, strict=True):
        if column.count(column[0]) == len(column):
            fields.append(literal(column[0]))
        else:
            fields.append("%s")
            types = set(map(type, column))
            varying.append(map(_WRITERS.get(types.pop(), literal) if len(types) == 1 else literal, column))
    row = f"({','.join(fields)})"
    return ",".join([row % values for values in zip(*varying, strict=True)] if varying else [row] * len(rows))


class Kept:
    """Statements whose answers nobody wants: they travel with the next one."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._size = 0

    def add(self, text: str) -> bool:
        """Keep one more; whether they are to be sent now."""
        self._texts.append(text)
        self._size += len(text)
        return self._size > KEPT

    def take(self, *texts: str) -> str:
        """All of them and these after them, as one text."""
        together = ";".join((*self._texts, *texts))
        self._texts, self._size = [], 0
        return together


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
            yield text % {"rows": _table(step.many)}
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
