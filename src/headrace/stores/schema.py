"""Plans of the schema, the same for every SQL store but for how a database is looked at and locked.

Each `migrations/NNNN_name.sql` leads to version NNNN, and its last entry writes that version down. The file
`NNNN_name.down.sql` leads back. Its entry `hold`, where it has one, keeps others out; `lost` counts what would be
deleted; the others are carried out in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from headrace.core.operations import Operation, Prepare
from headrace.core.schema import Downgrade, Downgraded, ReadSchema, SchemaView, Upgrade
from headrace.errors import StoreMisconfigured
from headrace.stores.plan import Plan, Statement
from headrace.stores.statements import version_of

HOLD, LOST = ".hold", ".lost"


class Facts(msgspec.Struct, frozen=True):
    """What a database says of its schema: its version, and the oldest code that may use it. All 0 where none is."""

    version: int = 0
    oldest: int = 0


def nothing() -> Plan[None]:
    """For a database whose transactions guard its schema."""
    return
    yield


class Schema:
    """The plans of `Prepare`, `ReadSchema`, `Upgrade` and `Downgrade`.

    `ups` and `downs` are the names of statements. `look` reads the facts. Between `lock` and `unlock` nobody else
    changes the schema.
    """

    def __init__(
        self,
        ups: Iterable[str],
        downs: Iterable[str],
        look: Callable[[], Plan[Facts]],
        lock: Callable[[], Plan[None]] = nothing,
        unlock: Callable[[], Plan[None]] = nothing,
    ) -> None:
        self._ups = list(ups)
        self._downs = list(downs)
        self._look = look
        self._lock = lock
        self._unlock = unlock
        self.known = max(map(version_of, self._ups))

    @staticmethod
    def serves(operation: Operation[Any]) -> bool:
        """Whether it is an operation on the schema itself."""
        return isinstance(operation, Prepare) or not operation.needs_schema

    def plan(self, operation: Operation[Any]) -> Plan[Any]:
        """The steps of such an operation."""
        match operation:
            case ReadSchema():
                return self._read()
            case Upgrade():
                return self._upgrade()
            case Downgrade(target=target, losing=losing):
                return self._downgrade(target, losing=losing)
        return self._prepare()

    def _read(self) -> Plan[SchemaView]:
        return self._view((yield from self._look()))

    def _view(self, facts: Facts) -> SchemaView:
        return SchemaView(facts.version, facts.oldest, self.known)

    def _prepare(self) -> Plan[None]:
        """A schema that is up to date, or newer but willing, is only looked at: that needs no rights but to use it."""
        yield from self._upgrade()

    def _upgrade(self) -> Plan[SchemaView]:
        """Look, and where something is missing, take the lock, look again, and carry out what is missing.

        Raises:
            StoreMisconfigured: the schema is too new for this headrace.
        """
        facts = yield from self._usable()
        if facts.version >= self.known:
            return self._view(facts)
        yield from self._lock()
        try:
            facts = yield from self._usable()  # another process may have been quicker
            for name in self._ups:
                if version_of(name) > facts.version:
                    yield Statement(name)
        finally:
            yield from self._unlock()
        return self._view(facts)

    def _usable(self) -> Plan[Facts]:
        """The facts. A newer schema may say that this code can use it, so that old workers run on during a deploy."""
        facts = yield from self._look()
        if facts.oldest > self.known:
            raise StoreMisconfigured(
                f"the schema of the database has version {facts.version} and needs code that knows {facts.oldest}, "
                f"this headrace knows {self.known}: upgrade headrace, or use another database or name"
            )
        return facts

    def _downgrade(self, target: int, *, losing: bool) -> Plan[Downgraded]:
        """Count first, so that a downgrade that is refused has changed nothing.

        Raises:
            StoreMisconfigured: the schema is newer than this headrace, which does not know the way back.
        """
        yield from self._lock()
        try:
            facts = yield from self._look()
            if facts.version > self.known:
                raise StoreMisconfigured(
                    f"the schema of the database has version {facts.version}, this headrace knows {self.known}: "
                    "downgrade it with the headrace that upgraded it"
                )
            steps = [name for name in self._downs if target < version_of(name) <= facts.version]
            lost = yield from _counted(steps)
            if lost and not losing:
                return Downgraded(facts.version, facts.version, lost)
            return (yield from _carried_out(steps, facts.version, losing=losing))
        finally:
            yield from self._unlock()


def _counted(names: Iterable[str]) -> Plan[dict[str, int]]:
    """What these steps would delete; what there is none of is left out."""
    lost: dict[str, int] = {}
    for name in names:
        if name.endswith(LOST):
            lost |= {what: count for what, count in (yield Statement(name)) if count}
    return lost


def _carried_out(names: Sequence[str], before: int, *, losing: bool) -> Plan[Downgraded]:
    """Version by version: hold the tables, count once more, since others were at work until now, and go."""
    after, lost = before, dict[str, int]()
    for version, group in groupby(names, version_of):
        steps = list(group)
        for name in steps:
            if name.endswith(HOLD):
                yield Statement(name)
        here = yield from _counted(steps)
        lost |= here
        if here and not losing:
            break
        for name in steps:
            if not name.endswith((HOLD, LOST)):
                yield Statement(name)
        after = version - 1
    return Downgraded(before, after, lost)
