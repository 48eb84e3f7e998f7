"""Hooks around each run of a job, for tracing, connection hygiene, error reporting and the like."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, ClassVar

from headrace.context import JobContext
from headrace.core.operations import Outcome
from headrace.errors import ConfigError
from headrace.signals import Signal

logger = logging.getLogger("headrace.worker")

Run = Callable[[], Awaitable[Any]]


class Middleware:
    """Subclass it, override what you need, and append an instance to `app.middleware`. The first one is outermost."""

    before_children: ClassVar[str] = ""
    """A function that each child process calls before it imports any task: "django:setup". For run_in="process"."""

    async def around(self, job: JobContext, run: Run) -> Any:
        """Called instead of the handler; must `return await run()`. What it raises counts as the handler's error."""
        return await run()

    def inside(self, job: JobContext) -> AbstractContextManager[object]:
        """A context that is entered right around the handler, in its own thread where it is a plain function.

        For what belongs to a thread: sessions, connections, context variables. `around` runs on the event loop. What
        the context raises counts as the handler's error.
        """
        return nullcontext()

    def ended(self, job: JobContext | None, outcome: Outcome) -> None:
        """Called on the loop once the run's outcome is decided (timeouts and failures included), before it is stored.

        `outcome.state` and `.reason` say what it is. `job` is None when the message could not be read. An error
        raised here is logged and changes nothing.
        """  # B111

    def noticed(self, signal: Signal) -> None:
        """Called for whatever happens beside the jobs, such as a circuit that opens, where it was made to happen.

        In a worker on its loop; elsewhere in the thread that forces a circuit, frees a task or makes a call. An error
        raised here is logged and changes nothing.
        """

    async def beside(self, worker: str) -> None:
        """Runs in each worker beside its jobs, on its loop, from its start until it is cancelled at its end.

        One that raises is started again after a pause.
        """

    def wrap(self, job: JobContext | None, run: Run) -> Run:
        """`run` with this hook around it."""
        assert job is not None
        context = job

        async def call() -> Any:
            return await self.around(context, run)

        return call

    def tell(self, job: JobContext | None, outcome: Outcome) -> None:
        """Call `ended`, whatever it does."""
        try:
            self.ended(job, outcome)
        except Exception:
            logger.exception("the hook %s.ended raised; the outcome stands", type(self).__name__)


def notice(middleware: Sequence[Middleware], signal: Signal) -> None:
    """Tell all of them, whatever they do."""
    for layer in middleware:
        try:
            layer.noticed(signal)
        except Exception:
            logger.exception("the hook %s.noticed raised", type(layer).__name__)


def beside(middleware: Sequence[Middleware], worker: str) -> list[Callable[[], Awaitable[None]]]:
    """What middleware wants to run beside the jobs."""
    return [_beside(layer, worker) for layer in middleware if type(layer).beside is not Middleware.beside]


def _beside(layer: Middleware, worker: str) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await layer.beside(worker)

    run.__qualname__ = f"{type(layer).__name__}.beside"
    return run


class Around:
    """What middleware wants to be called instead of the handler, the first one outermost."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        # some only listens, and then nothing is called
        self._layers = [layer for layer in reversed(middleware) if type(layer).around is not Middleware.around]

    def wrap(self, job: JobContext | None, run: Run) -> Run:
        """`run` with all of it around."""
        for layer in self._layers:
            run = layer.wrap(job, run)
        return run


class Inside:
    """The contexts that middleware wants around handlers, the first one outermost."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        # most middleware has none, and then nothing is entered
        self._layers = [layer for layer in middleware if type(layer).inside is not Middleware.inside]

    def call(self, job: JobContext | None, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Call a plain function, from its thread."""
        if not self._layers:
            return function(**arguments)
        with ExitStack() as stack:
            self._enter(stack, job)
            return function(**arguments)

    def acall(
        self, job: JobContext | None, function: Callable[..., Awaitable[Any]], arguments: dict[str, Any]
    ) -> Awaitable[Any]:
        """Call an async function; to be awaited in its task."""
        return self._acall(job, function, arguments) if self._layers else function(**arguments)

    async def _acall(
        self, job: JobContext | None, function: Callable[..., Awaitable[Any]], arguments: dict[str, Any]
    ) -> Any:
        with ExitStack() as stack:
            self._enter(stack, job)
            return await function(**arguments)

    def _enter(self, stack: ExitStack, job: JobContext | None) -> None:
        assert job is not None
        for layer in self._layers:
            stack.enter_context(layer.inside(job))


def checked(middleware: Sequence[Middleware]) -> Sequence[Middleware]:
    """`middleware`, if all of it can be called.

    Raises:
        ConfigError: one is no instance of `Middleware`, or its `ended` is a coroutine function, which nobody awaits.
    """
    for place, layer in enumerate(middleware):
        if not isinstance(layer, Middleware):
            raise ConfigError(f"middleware[{place}] is {layer!r}: append an instance of a subclass of Middleware")
        for name in ("ended", "noticed"):
            if inspect.iscoroutinefunction(getattr(layer, name)):
                raise ConfigError(f"middleware[{place}].{name} is an async function: make it a plain one")
        for name in ("around", "beside"):
            if not inspect.iscoroutinefunction(getattr(layer, name)):
                raise ConfigError(f"middleware[{place}].{name} is a plain function: make it `async def`")
    return middleware
