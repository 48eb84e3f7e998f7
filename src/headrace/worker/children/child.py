"""One child process, as its worker sees it: started, fed one job at a time, told to stop, killed."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

import msgspec

from headrace.context import JobContext
from headrace.worker.children import messages as say
from headrace.worker.children import system
from headrace.worker.children.lines import write
from headrace.worker.children.serve import serve

logger = logging.getLogger("headrace.worker")

READY_S = 120.0  # how long a child may take to import what it needs
KILL_S = 0.3  # from the request to end, which can be ignored, to the kill, which cannot
RACE_S = 0.5  # how long what a child has said before its death may take to be read
TOLD = 20  # looks for the exit code of a process that has ended
LEAVE_S = 1.0  # how long an idle child may take to leave


class ChildLostError(Exception):
    """The process has died: how, in words."""


def _exit_code(process: SpawnProcess) -> int | None:
    """Wait for its end. None: somebody else was told, as where SIGCHLD is ignored or the application reaps all."""
    for _ in range(TOLD):
        process.join()
        if (code := process.exitcode) is not None:
            return code
        time.sleep(0.01)  # another thread of ours may have been told first, by a hair
    return None


class Run:
    """One job in a child."""

    __slots__ = ("context", "done", "ladder", "number", "stack", "stopped")

    def __init__(
        self, number: int, context: JobContext | None, done: asyncio.Future[say.Answer | ChildLostError]
    ) -> None:
        self.number = number
        self.context = context
        self.done = done
        self.stack = ""  # where it was when it was told to stop
        self.stopped = False
        self.ladder: asyncio.TimerHandle | None = None  # the next, harder step


class Child:
    """Used on the loop only. A thread starts the process and waits for its death: it is never taken for alive."""

    def __init__(self, context: SpawnContext, settings: say.Settings, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = context
        self._settings = settings
        self._name = name
        self._ready: asyncio.Future[ChildLostError | None] = self._loop.create_future()
        self._dead: asyncio.Future[int | None] = self._loop.create_future()
        self._reading: asyncio.Task[None] | None = None
        self._last_words: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._run: Run | None = None
        self._killed_for = ""
        self._leaving = False
        self.pid = 0
        self.jobs = 0
        self.baseline = 0  # bytes in RAM when it was ready
        self.spent = False  # no job is to be given to it any more

    @property
    def alive(self) -> bool:
        """As far as is known."""
        return not self._dead.done()

    @property
    def busy(self) -> bool:
        """Whether a job runs in it."""
        return self._run is not None

    # -- its life

    async def start(self) -> None:
        """Until it is ready for jobs.

        Raises:
            ChildLostError: it has died before, or could not import the tasks, or takes too long.
        """
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        keeper = threading.Thread(target=self._keep, args=(theirs,), name=f"{self._name}-keeper", daemon=True)
        try:
            keeper.start()
        except RuntimeError as error:  # the system gives no thread
            self._dead.set_result(None)
            ours.close()
            theirs.close()
            raise ChildLostError(f"it could not be started: {error}") from error
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._reading = self._loop.create_task(self._read(reader))
        try:
            async with asyncio.timeout(READY_S):
                first: list[asyncio.Future[Any]] = [self._ready, self._dead]
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ChildLostError(f"not ready within {READY_S:.0f} s") from None
        if not self._ready.done():
            how = self._killed_for or system.how_it_ended(self._dead.result())
            raise ChildLostError(f"{how}, before it was ready: what it has printed says why, or the system's log")
        if (problem := self._ready.result()) is not None:
            raise problem
        self.baseline = system.resident_bytes(self.pid)

    def _keep(self, theirs: socket.socket) -> None:
        """In a thread that lives as long as the child: on Linux a child dies with the thread that has started it."""
        process = self._context.Process(
            target=serve, args=(theirs, say.encode(self._settings)), name=self._name, daemon=False
        )
        code = None
        try:
            process.start()
            self._tell(self._started, process.pid)
            theirs.close()
            code = _exit_code(process)
        except Exception as error:  # noqa: BLE001 - no memory, no process: it is said where the job is
            self._killed_for = f"it could not be started: {error}"
        finally:
            theirs.close()
            self._tell(self._died, code)

    def _tell(self, call: Callable[..., object], *args: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _started(self, pid: int) -> None:
        self.pid = pid

    def _died(self, code: int | None) -> None:
        if self.busy and self.pid:  # what its job has started must not go on beside the next attempt
            system.end_rest(self.pid)
        self._dead.set_result(code)
        self.spent = True
        self._last_words = self._loop.create_task(self._hear_last_words(code))

    async def _hear_last_words(self, code: int | None) -> None:
        """What it has said before is heard first; something that it has started may keep the connection open."""
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=RACE_S)
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
        if self._run is not None:
            how = self._killed_for or system.how_it_ended(code)
            self._end_run(ChildLostError(how))

    # -- messages

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                size = say.length(await reader.readexactly(say.LENGTH.size))
                self._hear(say.to_worker.decode(await reader.readexactly(size)))
        except (asyncio.IncompleteReadError, ConnectionError):
            if not self._leaving:  # its death is told by another; if it lives on, nothing more is heard of its job
                self._loop.call_later(RACE_S, self.kill, "its connection to the worker was closed inside of it")
        except (msgspec.DecodeError, UnicodeDecodeError):
            logger.exception("a child process talks nonsense: it is killed")
            self.kill("it wrote into its connection to the worker")

    def _hear(self, message: say.ToWorker) -> None:
        run = self._run
        match message:
            case say.Ready():
                if not self._ready.done():
                    self._ready.set_result(None)
            case say.Unready(problem=problem):
                if not self._ready.done():
                    self._ready.set_result(ChildLostError(problem))
            case say.Spent():
                self.spent = True
            case say.Line():
                write(message, None if run is None else run.context)
            case say.Where(number=number, stack=stack):
                if run is not None and run.number == number:
                    run.stack = stack
            case _:
                if run is not None and run.number == message.number:
                    self._end_run(message)

    def _send(self, message: say.ToChild) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(say.framed(message))

    # -- runs

    def begin(self, make: Callable[[int], say.Job], context: JobContext | None) -> Run:
        """Give it a job. `run.done` is its answer, or how it died of it."""
        self.jobs += 1
        run = self._run = Run(self.jobs, context, self._loop.create_future())
        if self.alive:
            self._send(make(run.number))
        else:
            self._end_run(ChildLostError("it died before it was given the job"))
        return run

    def _end_run(self, end: say.Answer | ChildLostError) -> None:
        run, self._run = self._run, None
        assert run is not None
        if run.ladder is not None:
            run.ladder.cancel()
        if not run.done.done():
            run.done.set_result(end)

    def stop(self, why: str, soft_s: float) -> None:
        """Ask the run to end, then the process, then kill it. Asked again, only the sooner end counts."""
        run = self._run
        if run is None:
            return
        if not run.stopped:
            run.stopped = True
            self._send(say.Stop(run.number, why))
        elif run.ladder is not None and run.ladder.when() <= self._loop.time() + soft_s:
            return
        if run.ladder is not None:
            run.ladder.cancel()
        run.ladder = self._loop.call_later(soft_s, self._terminate, run)

    def _terminate(self, run: Run) -> None:
        if run is self._run:
            if self.alive and self.pid:  # else its number may be another's by now
                system.end_group(self.pid, signal.SIGTERM)
            run.ladder = self._loop.call_later(KILL_S, self.kill)

    def kill(self, why: str = "") -> None:
        """At once. `why` is told instead of the signal."""
        self.spent = True
        if self.alive and self.pid:
            self._killed_for = self._killed_for or why
            system.end_group(self.pid, system.kill_number())

    async def ended(self) -> None:
        """Let it leave, kill it if it does not, and wait for its death."""
        self.spent = self._leaving = True
        if self._writer is not None:
            self._writer.close()
        if not self._ready.done() or self.busy:
            self.kill()
        await asyncio.wait({self._dead}, timeout=LEAVE_S)
        self.kill()
        await asyncio.wait({self._dead})
