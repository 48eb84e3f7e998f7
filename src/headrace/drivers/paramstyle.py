"""Turns our `:name` parameters into what a client library takes, once for each statement.

Quoted text, quoted names, comments and PostgreSQL's `::` casts are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_TOKEN = re.compile(
    r"""
    '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*`  # texts and names
    | --[^\n]* | /\*.*?\*/                     # comments
    | ::                                       # a cast
    | :(?P<name>[a-z_][a-z0-9_]*)
    | (?P<percent>%)
    """,
    re.VERBOSE | re.DOTALL,
)


def pyformat(statement: str) -> str:
    """`:name` becomes `%(name)s`, the style of psycopg and PyMySQL; a literal `%` is doubled, wherever it stands."""

    def replaced(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return match[0].replace("%", "%%")

    return _TOKEN.sub(replaced, statement)


def names(statement: str) -> list[str]:
    """The parameters of a statement in the order in which they stand, repeated where they are."""
    return [match["name"] for match in _TOKEN.finditer(statement) if match["name"]]


def spread(statement: str, params: Mapping[str, Any], rows: Sequence[Sequence[Any]] = ()) -> tuple[str, dict[str, Any]]:
    """Write lists out: `in :ids` becomes `in (:ids_0, :ids_1)`, and `values :rows` a list of rows.

    For client libraries that take single values only; the parameters of the new statement come with it. An empty list
    has no way to be written.
    """
    flat: dict[str, Any] = {}

    def named(name: str, value: Any) -> str:
        if not isinstance(value, list | tuple):
            flat[name] = value
            return f":{name}"
        return f"({', '.join(named(f'{name}_{place}', each) for place, each in enumerate(value))})"

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        if name == "rows":
            return ", ".join(named(f"row_{place}", tuple(row)) for place, row in enumerate(rows))
        return named(name, params[name]) if name else match[0]

    return _TOKEN.sub(replaced, statement), flat
