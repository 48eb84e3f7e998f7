"""The main loop of a child process: one job at a time, until the connection to the worker ends."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import itertools
import os
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

from headrace.context import JobContext, enter
from headrace.core import codec, once
from headrace.core.errortext import FRAMES, describe
from headrace.core.settle import retry_after_us
from headrace.core.trail import TEXT, TRACEBACK, clean
from headrace.core.verdict import Verdict, mistaken
from headrace.errors import InvalidArguments
from headrace.middleware import Inside
from headrace.task import Task
from headrace.worker.children import finding, importing, system
from headrace.worker.children import messages as say
from headrace.worker.children.gate import Gate, Terminated
from headrace.worker.children.lines import Lines
from headrace.worker.children.nowhere import Nowhere

PATIENCE_S = 5.0  # how long a child may take to leave when it is told to
TERMINATED = 143  # exit code of one that ended by SIGTERM
CLASSES = 20  # of an exception that are told
AROUND = {"multiprocessing", "asyncio", "contextlib", "selectors", __name__.partition(".")[0]}


def serve(connection: socket.socket, settings: bytes) -> None:
    """What multiprocessing calls in a new process."""
    child = Child(connection, say.settings.decode(settings))
    try:
        child.serve()
    except Terminated:
        os._exit(TERMINATED)


class Child:
    """Reads in a thread of its own; handlers run in the main thread."""

    def __init__(self, connection: socket.socket, settings: say.Settings) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._identity = system.identity(connection.fileno())
        self._settings = settings
        self._jobs: queue.SimpleQueue[say.Job | None] = queue.SimpleQueue()
        self._gate = Gate()
        self._sending = threading.Lock()
        self._busy = False
        self._context: JobContext | None = None
        self._runner: asyncio.Runner | None = None

    def serve(self) -> None:
        """Until there is nobody to serve."""
        settings = self._settings
        system.leave_with(settings.worker_pid)
        system.stand_apart()
        system.offer_to_the_system()
        self._listen()
        Lines(self.send).install(settings.log_level)
        threading.Thread(target=self._read, name="headrace-child", daemon=True).start()
        if self._prepare():
            importing.be_ready()
            self.send(say.Ready())
            while (job := self._jobs.get()) is not None:
                self._busy = True
                self._listen()
                answer = self._answer(job)
                self._busy = False
                if self._gate.raised:
                    self.send(say.Spent())
                self.send(answer)
                del job, answer
        if self._runner is not None:
            self._runner.close()

    def _listen(self) -> None:
        """Before each job: the one before may have left handlers of its own behind.

        Not ignored, which programs that handlers start would inherit. A SIGTERM that goes to all processes of a service
        does nothing here: the worker is to finish its jobs first.
        """
        for name in ("SIGINT", "SIGHUP", "SIGTERM"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._gate.on_signal if name == "SIGTERM" else _nothing)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def _prepare(self) -> bool:
        """Import what the tasks are in, now and not in the time of the first job."""
        try:
            for place in self._settings.set_up:
                module, _, name = place.partition(":")
                getattr(finding.module_of(module), name)()
            for module in self._settings.modules:
                finding.module_of(module)
        except BaseException as error:  # noqa: BLE001 - a module of the user's may raise anything, SystemExit too
            text = describe(error)
            self.send(say.Unready(f"{text.type}: {text.message}\n{text.traceback}"))
            return False
        return True

    # -- messages

    def send(self, message: msgspec.Struct) -> None:
        """From any thread. A worker that has gone is noticed by the thread that reads."""
        with self._gate.shield(), self._sending:
            try:
                self._check_connection()
                self._connection.sendall(say.framed(message))
            except OSError:
                self._jobs.put(None)

    def _check_connection(self) -> None:
        """A handler may have closed all descriptors: under the same number there may be a socket of its own by now."""
        if system.identity(self._connection.fileno()) != self._identity:
            raise OSError(errno.EBADF, "the connection to the worker was closed")

    def _read(self) -> None:
        try:
            while True:
                head = self._receive(say.LENGTH.size)
                message = say.to_child.decode(self._receive(say.LENGTH.unpack(head)[0]))
                if isinstance(message, say.Job):
                    self._jobs.put(message)
                else:
                    self._stop(message)
        except (EOFError, OSError):
            self._leave()

    def _receive(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = self._connection.recv(min(left, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _stop(self, stop: say.Stop) -> None:
        stack = _stack_of_the_handler()
        # first: it may be the last thing that is heard of this process
        self.send(say.Where(stop.number, clean(stack, TRACEBACK, keep_end=True)))
        if (context := self._context) is not None and self._gate.is_for(stop.number):
            context.request_cancel()
        self._gate.stop(stop.number, stop.why)

    def _leave(self) -> None:
        """The worker has closed the connection, or has died."""
        if self._busy:  # it has died, and the job belongs to others: nothing of it may go on
            system.end_group(os.getpid(), system.kill_number())
        self._jobs.put(None)
        threading.Event().wait(PATIENCE_S)
        os._exit(0)

    # -- running

    def _answer(self, job: say.Job) -> msgspec.Struct:
        task: Task[..., Any] | None = None
        try:
            task = finding.find(job.module, job.qualname, job.task)
            _leave_memory(task.producer)
            envelope = codec.decode(bytes(job.body))
            try:
                arguments = task.arguments.decode(envelope.args)
            except InvalidArguments as error:
                return say.Misfit(job.number, str(error))
            self._context = context = _context(job, task, envelope, arguments)
            value = contextvars.copy_context().run(self._call, job, task, context, arguments)
        except Verdict as verdict:
            return _decided(job, verdict, told=self._gate.told)
        except Terminated:
            os._exit(TERMINATED)
        except BaseException as error:  # noqa: BLE001 - MemoryError, SystemExit: they end this attempt only (B010)
            return _raised(job, task, error)
        finally:
            self._gate.close()
        if (mistake := mistaken(value, task.name)) is not None:
            return _raised(job, task, mistake)
        told = self._gate.told
        return _decided(job, value, told=told) if isinstance(value, Verdict) else _returned(job, value, told=told)

    def _call(self, job: say.Job, task: Task[..., Any], context: JobContext, arguments: dict[str, Any]) -> Any:
        inside = Inside(getattr(task.producer, "middleware", ()))
        if not task.is_async:
            enter(context)
            with self._gate.open(job.number):
                return inside.call(context, task.handler, arguments)
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()

        async def run() -> Any:
            enter(context)
            with self._gate.open(job.number, _canceller(loop)):
                return await inside.acall(context, task.handler, arguments)

        return self._runner.run(run())


def _stack_of_the_handler() -> str:
    """Where the main thread is, without what has called the handler; empty while a coroutine waits."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - its documented use
    frames = list(traceback.walk_stack(frame))[::-1]
    inner = itertools.dropwhile(lambda pair: _is_around(pair[0]), frames)
    return "".join(traceback.StackSummary.extract(inner).format()[-FRAMES:])


def _is_around(frame: FrameType) -> bool:
    """Whether this is no frame of the application's, but one that leads to it."""
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    return module in AROUND or frame.f_code.co_filename == "<string>"  # with which multiprocessing starts


def _canceller(loop: asyncio.AbstractEventLoop) -> Callable[[], object]:
    """What cancels the running asyncio task, from another thread."""
    running = asyncio.current_task()
    assert running is not None
    cancel = running.cancel
    return lambda: loop.call_soon_threadsafe(cancel)


def _leave_memory(app: Any) -> None:
    config = getattr(app, "config", None)
    if config is not None and config.url.startswith("memory:") and not isinstance(app.driver, Nowhere):
        app.driver = Nowhere()


def _nothing(*_: object) -> None:
    """What a signal does that is meant for the worker."""


def _context(job: say.Job, task: Task[..., Any], envelope: codec.Envelope, arguments: dict[str, Any]) -> JobContext:
    return JobContext(
        id=job.id,
        task=task.name,
        queue=job.queue,
        attempt=job.attempt,
        token=job.token,
        enqueued_us=job.enqueued_us,
        deadline_us=job.deadline_us,
        headers=envelope.headers,
        tags=envelope.tags,
        tenant=envelope.tenant,
        logged={name: arguments.get(name) for name in task.log},
        arguments=arguments,
        once_key=job.once_key,
        once_fence=job.once_fence,
        apart=True,
    )


def _returned(job: say.Job, value: object, *, told: bool) -> say.Returned:
    if not job.result:
        return say.Returned(job.number, told=told)
    try:
        return say.Returned(job.number, msgspec.Raw(once.encode_result(value)), told=told)
    except InvalidArguments as error:
        return say.Returned(job.number, problem=str(error), told=told)


def _decided(job: say.Job, verdict: Verdict, *, told: bool) -> say.Decided:
    kind = next(kind for kind in say.VERDICTS.values() if isinstance(verdict, kind))
    return say.Decided(job.number, kind.__name__, clean(str(verdict.why), TEXT), getattr(verdict, "delay_us", 0), told)


def _raised(job: say.Job, task: Task[..., Any] | None, error: BaseException) -> say.Raised:
    rule = () if task is None else task.retry.match(error)
    after_us = retry_after_us(error)
    classes = tuple(f"{finding.module_name(kind)}.{kind.__qualname__}" for kind in type(error).__mro__[:CLASSES])
    return say.Raised(job.number, *describe(error), retry_after_us=after_us, rule=rule, classes=classes)
