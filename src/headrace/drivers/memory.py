"""The driver of `memory://`: the model, a lock, and an event per waiting worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from headrace.core import operations as ops
from headrace.core.ringing import rings
from headrace.drivers.run import run
from headrace.stores.memory import MemoryStore, Model
from headrace.stores.plan import Call, Step

R = TypeVar("R")


class MemoryDriver:
    """Runs plans on a model in this process. Calls are short, so `arun` runs in the loop's own thread."""

    def __init__(self, store: MemoryStore, model: Model | None = None) -> None:
        self.store = store
        self.model = model or Model()
        self._lock = threading.Lock()
        self._wakeups: set[MemoryWakeup] = set()

    def run(self, operation: ops.Operation[R]) -> R:
        """Run `operation` atomically."""
        answer = run(self.store.plan(operation), self._execute)
        if rings(operation, answer):
            for wakeup in list(self._wakeups):
                wakeup.ring()
        return answer

    async def arun(self, operation: ops.Operation[R]) -> R:
        """The same; it never waits for anything but the lock."""
        return self.run(operation)

    def _execute(self, step: Step) -> Any:
        assert isinstance(step, Call)
        operation, now = step.args
        with self._lock:
            return self.model.apply(operation, time.time_ns() // 1000 if now is None else now)

    def wakeup(self, worker: str, queues: Sequence[str]) -> MemoryWakeup:
        """An event in this process, rung by every operation that leaves jobs ready."""
        wakeup = MemoryWakeup(self._wakeups)
        self._wakeups.add(wakeup)
        return wakeup

    def describe(self) -> str:
        """The address."""
        return "memory://"

    def close(self) -> None:
        """Nothing to close: the jobs stay until the driver is collected."""

    async def aclose(self) -> None:
        """Nothing to close."""


class MemoryWakeup:
    """Rings across threads."""

    def __init__(self, registry: set[MemoryWakeup]) -> None:
        self._registry = registry
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """Wake the waiting worker; from any thread."""
        if self._loop is None:
            self._event.set()
        else:
            with contextlib.suppress(RuntimeError):  # its loop has been closed: nobody waits, and the job is stored
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float) -> bool:
        """Until rung, at most `timeout` seconds."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    async def aclose(self) -> None:
        """Leave the registry."""
        self._registry.discard(self)
