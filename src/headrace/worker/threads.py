"""Daemon threads for synchronous handlers.

A thread cannot be killed. One whose handler has overrun its timeout is *stuck*: a spare thread takes its
slot, and it leaves when its handler returns at last, so that the number of usable threads stays as configured.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("headrace.worker")

Result = tuple[bool, Any]  # (returned, value) or (raised, exception)


class ThreadCall:
    """One call on its way through the pool."""

    __slots__ = ("begun", "context", "done", "function", "over", "stuck", "taken")

    def __init__(
        self, function: Callable[[], Any], done: asyncio.Future[Result], begun: Callable[[], object] | None
    ) -> None:
        self.function = function
        self.context = contextvars.copy_context()
        self.done = done
        self.begun = begun  # to be called on the loop once a thread has it
        self.taken = False  # by a thread, or back
        self.over = False
        self.stuck = False


class NotBegunError(Exception):
    """A call that waited for a thread or a child process was not wanted any more when it got one."""


class NoThreadError(Exception):
    """The system gives this process no thread."""


class ThreadPool:
    """Grows to `size` threads as needed. Results come back to the loop in batches: one wake-up for many."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._results: deque[tuple[ThreadCall, Result]] = deque()
        self._notified = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = 0
        self._busy = 0  # calls under way or queued, stuck ones apart
        self.stuck = 0

    def submit(self, function: Callable[[], Any], begun: Callable[[], object] | None = None) -> ThreadCall:
        """Run `function` in a thread, in a copy of the current context. From the loop's thread.

        `begun` is called on the loop when a thread is free and begins.
        """
        self._loop = asyncio.get_running_loop()
        usable = self._threads - self.stuck
        if self._busy >= usable and usable < self._size:
            self._spawn()
        call = ThreadCall(function, self._loop.create_future(), begun)
        self._busy += 1
        self._calls.put(call)
        return call

    def take_back(self, call: ThreadCall) -> bool:
        """See to it that `call` never begins; False when it has."""
        if not self._take(call):
            return False
        self._busy -= 1
        return True

    def _take(self, call: ThreadCall) -> bool:
        with self._lock:
            free, call.taken = not call.taken, True
        return free

    def abandon(self, call: ThreadCall, *, replace: bool) -> None:
        """Count the thread of `call` as stuck; with `replace`, a spare one serves others in its place."""
        with self._lock:
            if call.stuck or call.over:
                return
            call.stuck = True
        self.stuck += 1
        self._busy -= 1
        if replace and self._busy > self._threads - self.stuck:
            self._spawn()

    def close(self) -> None:
        """Let idle threads leave; stuck ones are daemons and end with the process."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _spawn(self) -> None:
        """One thread more. Where the system gives none, those there are do the work; with none at all, it raises."""
        try:
            threading.Thread(target=self._serve, name=f"{self._name}-{self._threads + 1}", daemon=True).start()
        except RuntimeError as error:
            if self._threads == self.stuck:
                raise NoThreadError from error
            logger.warning("no new thread for synchronous handlers: %s", error)
        else:
            self._threads += 1

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            if not self._take(call):
                continue
            try:
                if call.begun is not None and self._loop is not None:
                    self._loop.call_soon_threadsafe(call.begun)
                result: Result = (True, call.context.run(call.function))
            except BaseException as error:  # noqa: BLE001 - also SystemExit ends the attempt only, never the thread (B010)
                result = (False, error)
            with self._lock:
                call.over, stuck = True, call.stuck
            self._results.append((call, result))
            del call, result
            self._notify()
            if stuck:
                return

    def _notify(self) -> None:
        with self._lock:
            if self._notified or self._loop is None or self._loop.is_closed():
                return
            self._notified = True
        self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        with self._lock:
            self._notified = False
        while self._results:
            call, result = self._results.popleft()
            if call.stuck:
                self.stuck -= 1
                self._threads -= 1
            else:
                self._busy -= 1
            if not call.done.done():
                call.done.set_result(result)
