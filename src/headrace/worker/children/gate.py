"""Lets an interruption into the call that it is meant for, and into nothing else (B106)."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.errors import JobInterrupted


class Terminated(BaseException):
    """A run has not ended for its interruption: the child does."""


class Gate:
    """Of the child's main thread, in which all handlers run. Told to stop by the thread that reads messages.

    A plain function is interrupted by an exception that a signal handler raises: that ends a blocking system call too.
    An async function is cancelled. A second signal ends the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # between the two threads; never held while anything is raised
        self._main = threading.main_thread().ident or 0
        self._number = 0  # of the run whose call is under way; 0: none
        self._stop: tuple[int, str] | None = None
        self._raising = False  # the next signal is the exception; the one after that the end
        self._cancel: Callable[[], object] | None = None
        self.raised = False  # in the run before
        self.told = False  # whether the handler of that run could notice its interruption
        self._shields = 0
        self._missed = False

    def stop(self, number: int, why: str) -> bool:
        """From the reading thread. Whether that run is under way."""
        with self._lock:
            self._stop, under_way, cancel = (number, why), number == self._number, self._cancel
            self._raising = cancel is None
            self.told = self.told or (under_way and cancel is not None)
        if under_way:
            cancel() if cancel is not None else self._knock()
        return under_way

    def is_for(self, number: int) -> bool:
        """Whether the call of that run is under way."""
        return number == self._number

    def _knock(self) -> None:
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(self._main, signal.SIGTERM)  # which also ends a system call
        else:
            _thread.interrupt_main(signal.SIGTERM)

    def on_signal(self, *_: object) -> None:
        """In the main thread, between any two steps of whatever runs there."""
        if self._shields:
            self._missed = True
        elif self._number and self._stop is not None and self._stop[0] == self._number:
            if self._raising:
                self._raising, self.raised, self.told = False, True, True
                raise JobInterrupted(self._stop[1])
            raise Terminated

    @contextmanager
    def open(self, number: int, cancel: Callable[[], object] | None = None) -> Iterator[None]:
        """For the call of run `number`. `cancel`: how to stop an async one, from another thread."""
        with self._lock:
            self._cancel, self._number, self.raised = cancel, number, False
            already = self._stop is not None and self._stop[0] == number
            self._raising = already and cancel is None
            self.told = already and cancel is not None
        try:
            if already:  # told before it began
                cancel() if cancel is not None else self.on_signal()
            yield
        finally:
            self.close()

    def close(self) -> None:
        """Nothing is raised any more."""
        self._number, self._cancel = 0, None

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Put off what would be raised in here: half a message must not be sent."""
        if threading.get_ident() != self._main:
            yield
            return
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
            if self._missed and not self._shields:
                self._missed = False
                self.on_signal()
