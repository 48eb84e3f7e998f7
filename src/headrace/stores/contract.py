"""What a store is: operations in, plans out, and flags for what a database truly cannot do.

A store exists when it passes the conformance suite in `headrace.testing.conformance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from headrace.core.operations import Operation
from headrace.stores.plan import Plan

R = TypeVar("R")

Now = Callable[[], int] | None
"""Overrides the store's own clock with microseconds since the epoch. Only tests and the simulator set it."""

TOMBSTONE_US = 60 * 1_000_000  # a random id is remembered this long after its job ended
TOMBSTONE_DERIVED_US = 24 * 3600 * 1_000_000  # a derived or user-given one
BATCH = 1_000  # most jobs of one step; larger operations take several


class Features(msgspec.Struct, frozen=True):
    """Capability flags: False where a database truly cannot.

    For those who test a store, and ask only for what it can do; headrace itself treats all alike.
    """

    durable: bool = True  # jobs outlive the process
    shared: bool = True  # several processes may use it at once
    atomic_across_queues: bool = True  # one enqueue of jobs for several queues is one atomic step


class Store(Protocol):
    """Turns an operation into a plan."""

    features: Features

    def plan(self, operation: Operation[R]) -> Plan[R]:
        """The steps that carry out `operation` and its typed answer."""
        ...
