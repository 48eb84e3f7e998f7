"""The child processes of one worker: made when they are needed, kept warm, replaced when they are spent."""

from __future__ import annotations

import asyncio
import atexit
import logging
import multiprocessing
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headrace.middleware import Middleware
from headrace.worker.children import NoChildError, importing, system
from headrace.worker.children import messages as say
from headrace.worker.children.child import Child, ChildLostError
from headrace.worker.children.finding import MAIN
from headrace.worker.options import WorkerOptions
from headrace.worker.steps import Tasks

logger = logging.getLogger("headrace.worker")

WATCH_S = 0.2  # between two looks at the memory of children at work
AGAIN_S, AGAIN_MOST_S = 1.0, 30.0  # before another child is tried where one could not be started; doubled each time
HURRY_S = 0.3  # how long a run may still take that must end at once: the worker does, or the job is another's


class UnfitError(ChildLostError):
    """What a child needs before it has a job is beyond its limit, and so it will be the next time."""


class Pool:
    """At most `processes` children."""

    def __init__(self, options: WorkerOptions, tasks: Tasks, middleware: Sequence[Middleware]) -> None:
        self._options = options
        self._tasks = tasks
        self._set_up = tuple(layer.before_children for layer in middleware if layer.before_children)
        self._room = asyncio.Semaphore(options.process_limit)
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._burying: set[asyncio.Task[None]] = set()
        self._made = 0
        self._failures = 0  # to start one, in a row
        self._shut_until = 0.0
        self._unfit = False  # as was said
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Of the children that live."""
        return [child.pid for child in self._all if child.alive and child.pid]

    @asynccontextmanager
    async def child(self) -> AsyncIterator[Child]:
        """One that is ready for a job, as soon as one is free.

        Raises:
            NoChildError: none could be started, now or a moment ago.
        """
        await self._room.acquire()
        child: Child | None = None
        try:
            child = await self._ready_child()
            yield child
        finally:
            self._give_back(child)

    async def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()  # the one used last: what it has loaded is still warm
            if not child.spent:
                return child
            self._bury(child)
        if self._loop_time() < self._shut_until:
            raise NoChildError
        self._made += 1
        child = Child(multiprocessing.get_context("spawn"), self._settings(), f"{importing.NAME}{self._made}")
        if not self._all:
            atexit.register(self._kill_all)  # before multiprocessing, which would wait for them
        self._all.add(child)
        try:
            await child.start()
            self._check_baseline(child)
        except (ChildLostError, OSError) as error:
            self._bury(child)
            pause_s = self._shut()
            text = "no child process for jobs with run_in='process', the next try is in %.0f s at the earliest: %s"
            known, self._unfit = self._unfit, isinstance(error, UnfitError)
            logger.log(logging.DEBUG if known and self._unfit else logging.ERROR, text, pause_s, error)
            raise NoChildError from error
        except BaseException:  # the job was interrupted while it waited
            self._bury(child)
            raise
        self._failures, self._unfit = 0, False
        return child

    def _shut(self) -> float:
        """Start none for a while: each job that waits would else cost one that dies. For how long, in seconds."""
        pause_s = min(AGAIN_S * 2.0 ** min(self._failures, 10), AGAIN_MOST_S)
        self._failures += 1
        self._shut_until = self._loop_time() + pause_s
        return pause_s

    def _loop_time(self) -> float:
        return asyncio.get_running_loop().time()

    def _check_baseline(self, child: Child) -> None:
        """Refused, since no job could ever run: one error instead of a child after the other that is killed (B115)."""
        limit = self._options.child_memory
        if limit is not None and child.baseline >= limit:
            raise UnfitError(f"child_memory is {limit:,} bytes, but it starts with {child.baseline:,}: raise it")

    def _settings(self) -> say.Settings:
        modules = {task.function.__module__ for task in self._tasks.values() if task.run_in == "process"}
        return say.Settings(
            os.getpid(), tuple(sorted(modules, key=lambda name: (name != MAIN, name))), logging.root.level, self._set_up
        )

    def _give_back(self, child: Child | None) -> None:
        if child is not None and not self._is_spent(child):
            self._idle.append(child)
            self._room.release()
        elif child is not None and child.alive:
            self._bury(child, self._room.release)  # its successor starts when it has gone
        else:
            if child is not None:
                self._bury(child)
            self._room.release()

    def _is_spent(self, child: Child) -> bool:
        options = self._options
        if options.child_max_jobs is not None and child.jobs >= options.child_max_jobs:
            return True
        if options.child_memory is not None and system.resident_bytes(child.pid) > self._enough(child):
            return True  # the next job is not to pay for what this one has left behind
        return child.spent or child.busy or self._closed

    def _enough(self, child: Child) -> int:
        """Half of what it may grow by."""
        return (child.baseline + (self._options.child_memory or 0)) // 2

    def _bury(self, child: Child, then: Callable[[], object] = lambda: None) -> None:
        async def bury() -> None:
            try:
                await child.ended()
            finally:
                self._all.discard(child)
                then()

        task = asyncio.get_running_loop().create_task(bury())
        self._burying.add(task)
        task.add_done_callback(self._burying.discard)

    # -- limits and ends

    def watch(self) -> None:
        """Look after the memory of children, as long as any is at work."""
        if self._options.child_memory is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._watch(self._options.child_memory))

    async def _watch(self, limit: int) -> None:
        while any(child.busy for child in self._all):
            for child in self._all:
                if child.busy and child.alive and (resident := system.resident_bytes(child.pid)) > limit:
                    child.kill(f"killed for its memory: {resident:,} bytes resident (child_memory {limit:,})")
            await asyncio.sleep(WATCH_S)

    def hasten(self) -> None:
        """The worker ends: no run may take its time to stop."""
        for child in self._all:
            child.stop("shutdown", HURRY_S)

    async def close(self) -> None:
        """End all children, and wait for their death."""
        self._closed = True
        for child in self._all:
            self._bury(child)
        while self._burying:
            await asyncio.wait(set(self._burying))
        if self._watching is not None:
            self._watching.cancel()
        atexit.unregister(self._kill_all)

    def _kill_all(self) -> None:
        for child in self._all:
            child.kill()
