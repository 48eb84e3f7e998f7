"""The store: each operation's plan, run in one transaction that the driver opens (IMMEDIATE where it writes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from headrace.core import operations as ops
from headrace.core.transactions import Completed, Installation
from headrace.stores.contract import Features, Now
from headrace.stores.installation import installation
from headrace.stores.plan import Plan, Statement
from headrace.stores.schema import Schema
from headrace.stores.sqlite import (
    claim,
    enqueue,
    inspect,
    lease,
    look,
    mend,
    once,
    operate,
    outbox,
    parking,
    registers,
    schema,
    settle,
)
from headrace.stores.statements import DEFAULT_PREFIX, downgrades, load, migrations

R = TypeVar("R")

Plans = Mapping[type[Any], Callable[[Any, int], Plan[Any]]]

PLANS: Plans = {
    ops.Enqueue: enqueue.enqueue,
    ops.Promote: enqueue.promote,
    ops.Claim: claim.claim,
    ops.Settle: settle.settle,
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
    **registers.PLANS,
    Completed: settle.completed,
    Installation: installation,
}

BORROWED: Plans = {**PLANS, ops.Settle: settle.borrowed}


class SQLiteStore:
    """Plans for one SQLite file.

    `now` overrides the clock (tests and the simulator). `prefix` (default `headrace_`) begins the name of every
    table, so that they may live beside the tables of an application.

    Raises:
        ConfigError: `prefix` is no plain identifier.
    """

    features = Features()
    dialect = "sqlite"

    def __init__(self, now: Now = None, prefix: str = DEFAULT_PREFIX) -> None:
        self.now = now
        self._migrations = migrations(__package__, prefix)
        downs = downgrades(__package__, prefix)
        self._schema = Schema(self._migrations, downs, schema.look)
        self.sql: Mapping[str, str] = load(__package__, prefix) | self._migrations | downs

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of `operation`; the first asks for the time, and that moment holds for all others."""
        return self._schema.plan(operation) if Schema.serves(operation) else self._plan(operation)

    def mend(self, operation: ops.Operation[Any]) -> Plan[int]:
        """Put aside rows of other programs that may have stopped `operation`; answers how many there were."""
        moment = yield Statement("moment.now", {"now": self.now() if self.now else None})
        return (yield from mend.mend(operation, moment[0][0]))

    def borrowed(self, operation: ops.Operation[R]) -> Plan[R]:
        """An enqueue or a settle in a transaction of the caller's, which keeps all other writers out as ours do."""
        return self._plan(operation, BORROWED)

    def _plan(self, operation: ops.Operation[R], plans: Plans = PLANS) -> Plan[R]:
        moment = yield Statement("moment.now", {"now": self.now() if self.now else None})
        answer: R = yield from plans[type(operation)](operation, moment[0][0])
        return answer
