"""An event loop whose time is virtual: where a real one would sleep, it moves a `VirtualClock` instead.

An hour of timers takes as long as their callbacks do, and the same program runs in the same order every time.
Callbacks may belong to a `Group`, which can be frozen and killed like a process.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from typing import Any, Literal, NoReturn, TypeVar, TypeVarTuple

from headrace.testing.clock import MICROSECONDS, VirtualClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_MANY_TASKS = 500  # finished tasks of a group are forgotten when it has that many


class Deadlock(RuntimeError):
    """Nothing is scheduled: whatever is awaited will never come."""


class _VirtualSelector(selectors.SelectSelector):
    """Lets time pass instead of waiting for input, of which there is none."""

    def __init__(self, clock: VirtualClock, deadlock: Callable[[], NoReturn]) -> None:
        super().__init__()
        self._clock = clock
        self._deadlock = deadlock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            self._deadlock()
        if timeout > 0:
            self._clock.advance_us(math.ceil(timeout * MICROSECONDS))
        return []


class Group:
    """Everything that runs in one simulated process: tasks, timers and callbacks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: Literal["running", "frozen", "dead"] = "running"
        self._loop: VirtualLoop | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._held: list[_Call] = []

    def start(self, loop: VirtualLoop, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `coroutine`, and all that it starts, as this group."""
        self._loop = loop
        context = contextvars.copy_context()
        context.run(_GROUP.set, self)
        return loop.create_task(coroutine, name=self.name, context=context)

    def freeze(self) -> None:
        """As SIGSTOP: nothing runs until `thaw`, while time passes for all others."""
        if self.state == "running":
            self.state = "frozen"

    def thaw(self) -> None:
        """As SIGCONT: what became due meanwhile runs now, in that order."""
        if self.state == "frozen":
            self._resume()

    def kill(self) -> None:
        """As SIGKILL: nothing runs any more, no `finally`, no `except`."""
        self.state = "dead"

    def hold(self, call: _Call) -> None:
        """Keep a callback for the time after the frost, or after death, for the burial."""
        self._held.append(call)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Keep `task` alive: were a dead one collected, its `finally` clauses would run."""
        if len(self._tasks) > _MANY_TASKS:
            self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(task)

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Tasks that have not ended, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def revive(self) -> None:
        """Let the tasks of a dead group run again so that they can be cancelled: for the end of a simulation."""
        self._resume()

    def _resume(self) -> None:
        self.state = "running"
        held, self._held = self._held, []
        for call in held:
            assert self._loop is not None
            self._loop.resume(call)


_GROUP: ContextVar[Group | None] = ContextVar("headrace_simulated_process", default=None)


class _Call:
    """A callback of a group."""

    __slots__ = ("args", "callback", "context", "group", "handle")

    def __init__(self, group: Group, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> None:
        self.group = group
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.group.state == "running":
            self.callback(*self.args)
        else:
            self.group.hold(self)

    def again(self) -> None:
        """After a frost, unless it has been cancelled meanwhile."""
        assert self.handle is not None
        if not self.handle.cancelled():
            self()


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for one thread, without input and output, on virtual time.

    Raises:
        Deadlock: from whatever runs the loop, when nothing is scheduled; names the tasks that wait.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        """Run on `clock`, by default a new one."""
        self.clock = clock or VirtualClock()
        self._home = threading.get_ident()
        super().__init__(_VirtualSelector(self.clock, self._deadlock))
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self.clock.monotonic()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As ever, but a group's callback is held back while it is frozen, and when it is dead."""
        context = contextvars.copy_context() if context is None else context
        group = context.get(_GROUP)
        if group is None:
            return super().call_soon(callback, *args, context=context)
        call = _Call(group, callback, args, context)
        call.handle = super().call_soon(call, context=context)
        return call.handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As ever, with the same reservation."""
        context = contextvars.copy_context() if context is None else context
        group = context.get(_GROUP)
        if group is None:
            return super().call_at(when, callback, *args, context=context)
        call = _Call(group, callback, args, context)
        handle = super().call_at(when, call, context=context)
        call.handle = handle
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Only from the loop's own thread: others would make the order a matter of chance."""
        if threading.get_ident() != self._home:
            raise RuntimeError("another thread has called into a virtual loop: its order would be a matter of chance")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Refused, as there are no threads."""
        raise RuntimeError(f"a virtual loop has no threads: {func!r} cannot run in one")

    def resume(self, call: _Call) -> None:
        """Schedule a callback that was held back."""
        super().call_soon(call.again, context=call.context)

    def _deadlock(self) -> NoReturn:
        waiting = sorted(task.get_name() for task in asyncio.all_tasks(self))
        raise Deadlock(f"nothing is scheduled at {self.time():.6f} s; waiting for ever: {', '.join(waiting) or 'none'}")


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T], /, **options: Any
) -> asyncio.Future[T]:
    task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, **options)
    context: Context | None = options.get("context")
    group = context.get(_GROUP) if context is not None else _GROUP.get()
    if group is not None:
        group.adopt(task)
    return task


def run_virtual(main: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    """Run `main` to its end on virtual time, as `asyncio.run` does on real time.

    Raises:
        Deadlock: `main` awaits what will never come.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
