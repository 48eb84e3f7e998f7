"""Reads the named statements of `sql/*.sql` and `migrations/*.sql`, with the tables' prefix put in once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Any, TypeVar

import msgspec

from headrace.errors import ConfigError, InvalidArguments
from headrace.stores.contract import BATCH

V = TypeVar("V")

DEFAULT_PREFIX = "headrace_"
_ENTRY = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_OURS = re.compile(r"\bheadrace_(?!now\b)")  # every table and index of ours, but not the driver's clock
_PREFIX = re.compile(r"(?!sqlite_)(?:[a-z_][a-z0-9_]*)?")


def load(prefix: str) -> dict[str, str]:
    """Every statement of `sql/`, by `file.entry`.

    Raises:
        ConfigError: `prefix` is no plain identifier.
    """
    return dict(_statements("sql", prefix))


def migrations(prefix: str) -> dict[str, str]:
    """Every statement of `migrations/`, by `file.entry`, in the order in which they are carried out."""
    return dict(_statements("migrations", prefix))


def _statements(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"prefix={prefix!r} is no table prefix: use a-z, 0-9 and _, not starting with a digit or sqlite_"
        )
    place = resources.files("headrace.stores.sqlite") / folder
    for file in sorted(place.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            text = _OURS.sub(prefix, file.read_text(encoding="utf-8"))
            _, *parts = _ENTRY.split(text)
            for name, statement in zip(parts[::2], parts[1::2], strict=True):
                yield f"{file.name.removesuffix('.sql')}.{name}", statement.strip().removesuffix(";")


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


def batches(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """`values` in steps of at most `BATCH`."""
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))


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
