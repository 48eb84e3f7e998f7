"""What a SQL store has to know of registers: what changes make of the rows it has read, and where a prefix ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.registers import Change

Rows = Mapping[str, tuple[bytes, int]]
"""Name -> (content, when it is forgotten)."""

_LAST = 0x10FFFF  # the greatest code point
_SURROGATES = range(0xD800, 0xE000)


class Amended:
    """The answers, and how the rows must be changed: nothing to write where nobody changed anything.

    `found` are the rows as they are stored, also those whose time is over.
    """

    def __init__(self, changes: Iterable[Change], found: Rows, now: int) -> None:
        self.answers: list[Any] = []
        self._found = found
        self._left = {name: row for name, row in found.items() if row[1] > now}
        self._touched: set[str] = set()
        for change in changes:
            self._apply(change, now)

    def _apply(self, change: Change, now: int) -> None:
        name = change.register
        body, _ = self._left.get(name, (None, 0))
        changed = change.apply(body, now)
        self.answers.append(changed.answer)
        if changed.body is None:
            self._left.pop(name, None)
            self._touched.add(name)
        elif changed.body != body:
            self._left[name] = changed.body, now + changed.keep_us
            self._touched.add(name)

    @property
    def is_same(self) -> bool:
        """Whether there is nothing to write."""
        return not self.written and not self.erased

    @property
    def written(self) -> list[tuple[str, bytes, int]]:
        """Name, content and end of what must be stored, by name."""
        return [(name, *self._left[name]) for name in sorted(self._touched) if name in self._left]

    @property
    def erased(self) -> list[str]:
        """The names of the rows that must go, sorted."""
        return sorted(name for name in self._touched if name in self._found and name not in self._left)


def end_of(prefix: str) -> str | None:
    """The least text that is greater than all that begin with `prefix`, byte by byte in UTF-8; None: there is none."""
    for length in range(len(prefix), 0, -1):
        code = ord(prefix[length - 1]) + 1
        if code <= _LAST:
            return prefix[: length - 1] + chr(_SURROGATES.stop if code in _SURROGATES else code)
    return None
