"""A driver with faults at chosen places, for what cannot be hit from outside. Each is switched by a gate:

late-claim: a claim has taken place, but the worker hears of it only when the gate "claim" is open.
no-beat:    once the gate "no-beat" is open, heartbeats find no store.
slow-sweep: the look for dead workers, once the gate "sweep" is open, never ends.
"""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from headrace.core.operations import Beat, Claimed, Operation, Rescue
from headrace.core.ports import Driver, Wakeup
from headrace.errors import StoreUnavailable
from tests.process.apps.scene import LONG, Scene
from tests.waiting import await_until

R = TypeVar("R")


class FaultyDriver:
    """Everything goes to the real driver, sooner or later."""

    def __init__(self, inner: Driver, scene: Scene) -> None:
        self._inner = inner
        self._scene = scene
        self._faults = scene.settings.faults.split(",")

    def run(self, operation: Operation[R]) -> R:
        self._refuse_beats(operation)
        return self._inner.run(operation)

    async def arun(self, operation: Operation[R]) -> R:
        self._refuse_beats(operation)
        if isinstance(operation, Rescue) and "slow-sweep" in self._faults and self._scene.is_open("sweep"):
            self._scene.write("sweeping")
            await asyncio.Event().wait()
        answer = await self._inner.arun(operation)
        if "late-claim" in self._faults and isinstance(answer, Claimed) and answer.jobs:
            self._scene.write("claimed", jobs=[job.id for job in answer.jobs])
            await await_until(lambda: self._scene.is_open("claim"), LONG)
        return answer

    def _refuse_beats(self, operation: Operation[R]) -> None:
        if isinstance(operation, Beat) and "no-beat" in self._faults and self._scene.is_open("no-beat"):
            raise StoreUnavailable("heartbeats are refused in this test")

    def wakeup(self, worker: str, queues: Sequence[str]) -> Wakeup:
        return self._inner.wakeup(worker, queues)

    def describe(self) -> str:
        return self._inner.describe()

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


def spoil(scene: Scene) -> None:
    """Put the faults of `scene` between its app and the store."""
    scene.app.driver = FaultyDriver(scene.app.driver, scene)
