"""Lists as one parameter of a statement, and what to do with texts that JSON cannot carry to SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.errors import InvalidArguments
from headrace.stores.statements import batches

V = TypeVar("V")


class ForeignRow(TypeError):
    """A row holds what no program of ours writes."""


def listed(values: Sequence[Any]) -> str:
    """A list as one parameter, for `json_each`: as many values as you like in one statement (B134).

    Raises:
        InvalidArguments: a text holds a NUL character, which SQLite's JSON would cut it at.
    """
    text = msgspec.json.encode(values).decode()
    if "\\u0000" in text and any("\x00" in part for part in _texts(values)):
        raise InvalidArguments("ids, queue names and unique keys cannot hold a NUL character on SQLite: choose others")
    return text


def _texts(values: Sequence[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _texts(value)


def by_id(values: Sequence[V], id_of: Callable[[V], str]) -> Iterator[tuple[Sequence[V], dict[str, Any]]]:
    """`values` in steps, each with the ids as parameters `ids` and `odd`.

    No job of ours has an id with a NUL character, but a row that another program wrote may, or even a blob. JSON cannot
    carry that one, so its step goes value by value, and `odd` is the id bound as it is: it must not hold up the others.
    """
    for some in batches(values):
        ids = [id_of(value) for value in some]
        if all(type(id) is str and "\x00" not in id for id in ids):
            yield some, {"ids": listed(ids), "odd": None}
            continue
        for value, id in zip(some, ids, strict=True):
            yield [value], {"ids": "[]", "odd": id}


def is_text(raw: bytes | None) -> bool:
    """Whether these bytes can be read as what we write."""
    try:
        return raw is None or raw.decode() is not None
    except UnicodeDecodeError:
        return False


def readable(raw: bytes) -> str:
    """For people, and to ask for: what is not UTF-8 is shown as `\\xff`."""
    return raw.decode("utf-8", "backslashreplace")
