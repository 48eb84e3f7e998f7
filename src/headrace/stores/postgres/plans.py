"""The store: each operation's plan. Time is the server's, asked for by the statements themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from headrace.core import operations as ops
from headrace.core.transactions import Completed, Installation
from headrace.stores.contract import Features, Now
from headrace.stores.installation import installation
from headrace.stores.plan import Plan
from headrace.stores.postgres import (
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
from headrace.stores.postgres.heads import Heads
from headrace.stores.schema import Schema
from headrace.stores.statements import DEFAULT_PREFIX, downgrades, load, migrations

R = TypeVar("R")

PLANS: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {
    ops.Enqueue: enqueue.enqueue,
    ops.Promote: enqueue.promote,
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

WORKING: Mapping[type[Any], Callable[[Any, int | None, Heads], Plan[Any]]] = {
    ops.Claim: claim.claim,
    ops.Settle: settle.settle,
    ops.Beat: lease.beat,
    ops.Leave: lease.leave,
    ops.Rescue: lease.rescue,
}


class PostgresStore:
    """Plans for one PostgreSQL database.

    `now` overrides the clock (tests and the simulator). `prefix` (default `headrace_`) begins the name of every
    table, so that they may live beside the tables of an application.

    Raises:
        ConfigError: `prefix` is no plain identifier.
    """

    features = Features()
    dialect = "postgres"

    def __init__(self, now: Now = None, prefix: str = DEFAULT_PREFIX) -> None:
        self.now = now
        self._heads = Heads()
        self._migrations = migrations(__package__, prefix)
        downs = downgrades(__package__, prefix)
        self._schema = Schema(self._migrations, downs, schema.look, schema.lock)
        self.sql: Mapping[str, str] = load(__package__, prefix) | self._migrations | downs

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of `operation`."""
        return self._schema.plan(operation) if Schema.serves(operation) else self._plan(operation)

    def _plan(self, operation: ops.Operation[R]) -> Plan[R]:
        kind = type(operation)
        if kind in WORKING:
            return WORKING[kind](operation, self._moment(), self._heads)
        return PLANS[kind](operation, self._moment())

    def borrowed(self, operation: ops.Operation[R]) -> Plan[R]:
        """An enqueue or a settle in a caller's transaction, which may be long: it touches no rows but its own."""
        if isinstance(operation, ops.Settle):
            return cast("Plan[R]", settle.borrowed(operation, self._moment()))
        assert isinstance(operation, ops.Enqueue)
        return cast("Plan[R]", enqueue.enqueue(operation, self._moment(), promoting=False))

    def _moment(self) -> int | None:
        return self.now() if self.now else None
