"""Turns our `:name` parameters into what a client library takes, once for each statement.

Quoted text, quoted names, comments and PostgreSQL's `::` casts are left alone.
"""

from __future__ import annotations

import re

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
