"""Redis and Valkey: every operation as one script call per step, atomic within a queue.

The scripts are in `lua/`; `lua/library.lua` opens with the map of all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from headrace.core import once_records
from headrace.core import operations as ops
from headrace.core import parking as parked
from headrace.core import registers as shared
from headrace.stores.contract import Features, Now
from headrace.stores.plan import Plan
from headrace.stores.redis import (
    living,
    looking,
    once,
    operating,
    parking,
    producing,
    registers,
    serving,
    settling,
    working,
)
from headrace.stores.redis.common import Common
from headrace.stores.redis.keys import scripts

R = TypeVar("R")

_PLANS: dict[type, Callable[[Common, Any], Plan[Any]]] = {
    ops.Prepare: serving.prepare,
    ops.Inspect: serving.inspect,
    ops.Enqueue: producing.enqueue,
    ops.Claim: working.claim,
    ops.Settle: settling.settle,
    ops.Promote: working.promote,
    ops.Beat: living.beat,
    ops.Leave: living.leave,
    ops.Rescue: living.rescue,
    ops.Cancel: operating.cancel,
    ops.Replay: operating.replay,
    ops.Edit: operating.edit,
    ops.Forget: operating.forget,
    ops.Prune: operating.prune,
    ops.Get: looking.get,
    ops.List: looking.list_jobs,
    ops.Queues: looking.queues,
    ops.Workers: looking.workers,
    once_records.TakeOnce: once.take,
    once_records.RenewOnce: once.renew,
    once_records.EndOnce: once.end,
    once_records.LookOnce: once.look,
    parked.Unpark: parking.unpark,
    parked.LookParked: parking.look,
    shared.Amend: registers.amend,
    shared.LookRegisters: registers.look,
}


class RedisStore(Common):
    """Plans for Redis >= 6.2 and Valkey.

    `name` is the prefix of all keys. `now` overrides the server's clock (tests only). `cluster` splits claims,
    settles and beats by queue, because each queue has a slot of its own; without it they span all queues.
    `allow_eviction` accepts a server that throws jobs away when it is full.

    An id is unique within its queue, and so is the once key of a job. A step is one script; a step named in capitals
    is a plain command.
    """

    features = Features(atomic_across_queues=False)

    def __init__(
        self, name: str = "headrace", now: Now = None, *, cluster: bool = False, allow_eviction: bool = False
    ) -> None:
        super().__init__(name, now, cluster=cluster, allow_eviction=allow_eviction)

    @property
    def scripts(self) -> Mapping[str, str]:
        """The text of every script by name."""
        return scripts()

    def wake_key(self, queue: str) -> str:
        """The list to block on: an element says that jobs may be waiting."""
        return self.keys.one(queue, "wake")

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps that carry out `operation`."""
        return cast("Plan[R]", _PLANS[type(operation)](self, operation))
