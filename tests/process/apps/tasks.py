"""The tasks of the worker tests. A test registers them too, on an app of its own, to enqueue them typed."""

import asyncio
import os
import signal
from typing import Any, NoReturn

from headrace import Fixed, Headrace, Retry, Task, current_job
from tests.process.apps.scene import LONG, Scene
from tests.waiting import await_until, wait_until

KEEP = 3600.0  # succeeded jobs stay, so that tests can look at their counts
SOON = Retry(max_attempts=3, backoff=Fixed(0.05))


class Calamity(BaseException):
    """An error that `except Exception` does not see."""


ERRORS: dict[str, type[BaseException]] = {
    error.__name__: error
    for error in (MemoryError, RecursionError, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Calamity)
}


def die() -> None:
    """As the kernel's out-of-memory killer does it."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class Tasks:
    """All of them, by name."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        app = scene.app
        self.hold = app.task(name="hold", keep=KEEP, retry=SOON)(self._hold)
        self.hold_briefly = app.task(name="hold_briefly", keep=KEEP, retry=SOON, timeout=3600)(self._hold)
        self.hold_once = app.task(name="hold_once", keep=KEEP, retry=1)(self._hold)
        self.hold_thread = app.task(name="hold_thread", keep=KEEP, retry=SOON)(self._hold_thread)
        self.overrun = app.task(name="overrun", keep=KEEP, retry=Retry(max_attempts=2, backoff=Fixed(0)), timeout=0.5)(
            self._hold_thread
        )
        self.block_loop = app.task(name="block_loop", keep=KEEP, retry=1)(self._block_loop)
        self.deaf = app.task(name="deaf", keep=KEEP)(self._deaf)
        self.quick = app.task(name="quick")(self._quick)
        self.kill_worker = app.task(name="kill_worker", keep=KEEP)(self._kill_worker)
        self.poison = app.task(name="poison")(self._poison)
        self.deadly = app.task(name="deadly", retry=Retry(max_crashes=1))(self._deadly)
        self.raise_one = app.task(name="raise_one", retry=1)(self._raise_one)
        self.raise_one_in_thread = app.task(name="raise_one_in_thread", retry=1)(self._raise_one_in_thread)
        self.swell = app.task(name="swell", keep=KEEP)(self._swell)
        self.newest: Task[Any, Any] | None = None
        if scene.settings.version > 1:
            self.newest = app.task(name="newest", keep=KEEP)(self._newest)

    async def _hold(self, gate: str) -> None:
        """Wait for a gate, or for a gate of this process: `gate.PID`."""
        self.scene.note("start")
        mine = f"{gate}.{os.getpid()}"
        try:
            await await_until(lambda: self.scene.is_open(gate) or self.scene.is_open(mine), LONG)
        except asyncio.CancelledError:
            self.scene.note("interrupted")
            raise
        self.scene.note("end")

    def _hold_thread(self, gate: str) -> None:
        self.scene.note("start")
        wait_until(lambda: self.scene.is_open(gate), LONG)
        self.scene.note("end")

    async def _block_loop(self, gate: str) -> None:
        """Code that forgets that it runs in an event loop."""
        self.scene.note("start")
        wait_until(lambda: self.scene.is_open(gate) or self.scene.is_open(f"{gate}.{os.getpid()}"), LONG)
        self.scene.note("end")

    async def _deaf(self, gate: str) -> None:
        """Swallows every cancellation."""
        self.scene.note("start")
        while not self.scene.is_open(gate):
            try:
                await await_until(lambda: self.scene.is_open(gate), LONG)
            except asyncio.CancelledError:
                self.scene.note("swallowed")

    async def _quick(self, number: int) -> None:
        self.scene.note("done", number=number)

    async def _kill_worker(self, times: int) -> None:
        """SIGKILL for the own worker, in the first `times` runs."""
        self.scene.note("start")
        if len(self.scene.notes("start", job=current_job().id)) <= times:
            die()
        self.scene.note("end")

    async def _poison(self, gate: str) -> None:
        """Always SIGKILL, once all is ready for it."""
        self.scene.note("start")
        await await_until(lambda: self.scene.is_open(gate), LONG)
        die()

    async def _deadly(self, number: int) -> None:
        """SIGKILL, until a newer version of the code is there."""
        self.scene.note("start")
        if self.scene.settings.version == 1:
            die()
        self.scene.note("done", number=number)

    async def _raise_one(self, error: str) -> None:
        self.scene.note("start")
        self._raise(error)

    def _raise_one_in_thread(self, error: str) -> None:
        self.scene.note("start")
        self._raise(error)

    def _raise(self, error: str) -> NoReturn:
        raise ERRORS[error](3)

    def _swell(self, megabytes: int) -> None:
        """Memory that never comes back."""
        BALLAST.append(bytearray(os.urandom(1024) * 1024 * megabytes))
        self.scene.note("end")

    async def _newest(self, number: int) -> None:
        self.scene.note("done", number=number)


BALLAST: list[bytearray] = []


def define(scene: Scene) -> Tasks:
    """Register the tasks with the app of `scene`."""
    return Tasks(scene)


def app_of(scene: Scene) -> Headrace:
    """The app with its tasks."""
    define(scene)
    return scene.app
