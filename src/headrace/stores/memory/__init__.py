"""The reference model: every operation in plain Python over a few dictionaries.

Other stores are compared with this one, so it is written to be read. It also serves tests and short-lived
programs as `memory://`, where jobs live as long as the process.
"""

from __future__ import annotations

from typing import TypeVar

from headrace.core import operations as ops
from headrace.stores.contract import Features, Now
from headrace.stores.memory.model import Model
from headrace.stores.plan import Call, Plan

__all__ = ["MemoryStore", "Model"]

R = TypeVar("R")


class MemoryStore:
    """Plans for the memory driver: one call each."""

    features = Features(durable=False, shared=False)

    def __init__(self, now: Now = None) -> None:
        self.now = now

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """One step: the model applies the operation at the driver's now, or at the overriding one."""
        answer: R = yield Call("apply", args=(operation, self.now() if self.now else None))
        return answer
