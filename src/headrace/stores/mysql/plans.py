"""The store: each operation's plan. The driver opens a transaction where it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from headrace.core import operations as ops
from headrace.core.once_records import TakeOnce
from headrace.core.registers import Amend, LookRegisters
from headrace.core.transactions import Completed, Installation
from headrace.errors import ConfigError
from headrace.stores.contract import Features, Now
from headrace.stores.installation import installation
from headrace.stores.mysql import (
    claim,
    enqueue,
    inspect,
    lease,
    look,
    once,
    operate,
    outbox,
    parking,
    registers,
    schema,
    settle,
)
from headrace.stores.mysql.heads import Heads
from headrace.stores.mysql.watch import Watch
from headrace.stores.plan import Plan, Statement
from headrace.stores.schema import Schema
from headrace.stores.statements import DEFAULT_PREFIX, downgrades, load, migrations

R = TypeVar("R")

LONGEST_PREFIX = 48  # a table's name may have 64 characters

# These ask for the time in their first statement by themselves; the hot ones remember what was slow.
TIMED: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {
    ops.Enqueue: enqueue.enqueue,
    TakeOnce: once.take,
    Amend: registers.amend,
}
HOT: Mapping[type[Any], Callable[[Any, int | None, Heads], Plan[Any]]] = {
    ops.Claim: claim.claim,
    ops.Settle: settle.settle,
}
PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {
    ops.Promote: enqueue.promote,
    ops.Beat: lease.beat,
    ops.Leave: lease.leave,
    ops.Rescue: lease.rescue,
    ops.Cancel: operate.cancel,
    ops.Replay: operate.replay,
    ops.Edit: operate.edit,
    ops.Forget: operate.forget,
    ops.Prune: operate.prune,
    ops.Get: look.get,
    ops.List: look.page,
    ops.Queues: look.queues,
    ops.Workers: look.workers,
    ops.Inspect: inspect.inspect,
    **once.PLANS,
    **outbox.PLANS,
    **parking.PLANS,
    LookRegisters: registers.look,
    Completed: settle.completed,
    Installation: installation,
}


class MySQLStore:
    """Plans for MySQL 8.0.1 and MariaDB 10.6 or newer.

    `now` overrides the clock (tests and the simulator). `prefix` (default `headrace_`) begins the name of every
    table, so that they may live beside the tables of an application.

    Raises:
        ConfigError: `prefix` is no plain identifier, or longer than 48 characters.
    """

    features = Features()
    dialect = "mysql"

    def __init__(self, now: Now = None, prefix: str = DEFAULT_PREFIX) -> None:
        if len(prefix) > LONGEST_PREFIX:
            raise ConfigError(f"prefix={prefix!r} is too long for MySQL: use at most {LONGEST_PREFIX} characters")
        self.now = now
        self._heads = Heads()
        self._migrations = migrations(__package__, prefix)
        downs = downgrades(__package__, prefix)
        self._schema = Schema(self._migrations, downs, schema.look, schema.lock, schema.unlock)
        self.sql: Mapping[str, str] = load(__package__, prefix) | self._migrations | downs

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of `operation`; one moment holds for all of them."""
        if Schema.serves(operation):
            return self._schema.plan(operation)
        if (timed := TIMED.get(type(operation))) is not None:
            return timed(operation, self._override())
        hot = HOT.get(type(operation))
        return hot(operation, self._override(), self._heads) if hot else self._plan(operation)

    def borrowed(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of an enqueue or a settle inside a caller's own transaction, whatever its isolation.

        It begins, commits and sets nothing, and no statement fails on a duplicate. Due jobs of the queues are left to
        others: to promote them here would lock them until the caller commits.
        """
        if isinstance(operation, ops.Settle):
            return cast("Plan[R]", settle.borrowed(operation, self._override()))
        assert isinstance(operation, ops.Enqueue)
        return cast("Plan[R]", enqueue.enqueue(operation, self._override(), borrowed=True))

    def watch(self, queues: Sequence[str]) -> Watch:
        """The steps of a worker that waits for work in these queues."""
        return Watch(queues, self._override())

    def _override(self) -> int | None:
        return self.now() if self.now else None

    def _plan(self, operation: ops.Operation[R]) -> Plan[R]:
        moment = yield Statement("moment.now", {"now": self._override()})
        answer: R = yield from PLANS[type(operation)](operation, moment[0][0])
        return answer
