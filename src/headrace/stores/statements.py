"""Reads a store's named statements, `sql/*.sql` and `migrations/*.sql`, with the tables' prefix put in once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import TypeVar

from headrace.errors import ConfigError
from headrace.stores.contract import BATCH

V = TypeVar("V")

DEFAULT_PREFIX = "headrace_"
_DOWN = ".down."
_ENTRY = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_OURS = re.compile(r"\bheadrace_(?!now\b)")  # every table and index of ours, but not a driver's clock
_PREFIX = re.compile(r"(?!sqlite_)(?:[a-z_][a-z0-9_]*)?")


def load(package: str, prefix: str) -> dict[str, str]:
    """Every statement of the package's `sql/`, by `file.entry`.

    Raises:
        ConfigError: `prefix` is no plain identifier.
    """
    return dict(_statements(package, "sql", prefix))


def migrations(package: str, prefix: str) -> dict[str, str]:
    """Every statement of `migrations/NNNN_name.sql`, by `file.entry`, in the order in which they are carried out."""
    return {name: text for name, text in _statements(package, "migrations", prefix) if _DOWN not in name}


def downgrades(package: str, prefix: str) -> dict[str, str]:
    """Every statement of `migrations/NNNN_name.down.sql`, newest file first."""
    steps = {name: text for name, text in _statements(package, "migrations", prefix) if _DOWN in name}
    return {name: steps[name] for name in sorted(steps, key=version_of, reverse=True)}


def version_of(name: str) -> int:
    """The version of the schema that `0001_jobs.entry` or `0001_jobs.down.entry` is about."""
    return int(name.partition("_")[0])


def _statements(package: str, folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            f"prefix={prefix!r} is no table prefix: use a-z, 0-9 and _, not starting with a digit or sqlite_"
        )
    place = resources.files(package) / folder
    for file in sorted(place.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            text = _OURS.sub(prefix, file.read_text(encoding="utf-8"))
            _, *parts = _ENTRY.split(text)
            for name, statement in zip(parts[::2], parts[1::2], strict=True):
                yield f"{file.name.removesuffix('.sql')}.{name}", statement.strip().removesuffix(";")


def batches(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """`values` in steps of at most `BATCH`."""
    return (values[start : start + BATCH] for start in range(0, len(values), BATCH))
