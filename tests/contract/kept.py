"""Drivers on a database that stay open from one test to the next: their tables are emptied, their connections warm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.core import operations as ops
from headrace.errors import StoreError
from tests.contract.prefixes import Prefixes

if TYPE_CHECKING:
    from headrace.testing.conformance import LoopThread


class Kept:
    """One driver on tables of its own, in use by one test at a time."""

    def __init__(self, prefix: str, driver: Any) -> None:
        self.prefix = prefix
        self.driver = driver
        self._close = driver.close
        self._loop: LoopThread | None = None

    def loop(self) -> LoopThread:
        """Where its asynchronous colour runs."""
        if self._loop is None:
            from headrace.testing.conformance import LoopThread  # not before the root's conftest.py has it rewritten

            self._loop = LoopThread(self.driver)
        return self._loop

    def end(self) -> None:
        """Close all that is open."""
        self.driver.close = self._close
        if self._loop is not None:
            self._loop.close()
        self.driver.close()


class Keeper:
    """The drivers of one database; `close` of a driver that is lent gives it back."""

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = prefixes
        self._free: dict[str, list[Kept]] = defaultdict(list)

    def lend(self, way: str, open_driver: Callable[[str], Any], make_store: Callable[[str], Any]) -> Any:
        """A driver on empty tables, with a store that knows of nothing yet. Both are made for a prefix.

        `way`: to the server; drivers that go another way are not lent.
        """
        kept = self._free_one(way)
        if kept is None:
            prefix = self.prefixes.take()
            kept = Kept(prefix, open_driver(prefix))
        lent = [kept]

        def give_back() -> None:
            if lent:
                self._free[way].append(lent.pop())

        kept.driver.store = make_store(kept.prefix)
        kept.driver.close = give_back
        kept.driver.kept = kept
        return kept.driver

    def _free_one(self, way: str) -> Kept | None:
        while self._free[way]:
            kept = self._free[way].pop()
            self.prefixes.wipe(kept.prefix)
            try:
                kept.driver.run(ops.Workers())
            except StoreError:  # a test may have left it in any state
                kept.end()
            else:
                return kept
        return None

    def end(self) -> None:
        """Close them all."""
        for free in self._free.values():
            for kept in free:
                kept.end()
        self.prefixes.close()
