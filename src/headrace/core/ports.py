"""What the rooms above a store ask of the outside world, as protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from headrace.core.operations import Operation

R = TypeVar("R")


class Clock(Protocol):
    """Time that grows evenly and never jumps. Only differences mean anything."""

    def monotonic(self) -> float:
        """Seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...


class Wakeup(Protocol):
    """A hint that jobs may be waiting. It carries no job and may be lost: the truth is polled."""

    async def wait(self, timeout: float) -> bool:
        """Return True when rung, False after `timeout` seconds. A lost connection counts as neither: it waits on."""
        ...

    async def aclose(self) -> None:
        """Stop listening. May be called twice."""
        ...


class Driver(Protocol):
    """A store with its connection: runs operations for synchronous and asynchronous callers.

    A store that cannot be reached raises `StoreUnavailable`; whether the operation took place is then unknown,
    and every operation may be repeated. Drivers ring the wake-up themselves after operations that leave
    jobs ready (`ringing.rings`).
    """

    def run(self, operation: Operation[R]) -> R:
        """Run in this thread. Thread-safe; safe after a fork, which opens connections of its own."""
        ...

    async def arun(self, operation: Operation[R]) -> R:
        """Run without blocking the loop. A cancelled caller leaves the operation to finish within 5 s."""
        ...

    def wakeup(self, worker: str, queues: Sequence[str]) -> Wakeup:
        """Listen for jobs in `queues`."""
        ...

    def describe(self) -> str:
        """The store's address without its password."""
        ...

    def close(self) -> None:
        """Close what `run` opened. May be called twice; the driver opens again when used again."""
        ...

    async def aclose(self) -> None:
        """Close everything."""
        ...
