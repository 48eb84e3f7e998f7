"""The driver of Redis and Valkey.

Connections are our own, on hiredis: see docs/decisions/0003-redis-connection.md. Nothing is ever sent twice by itself:
a caller that got no answer knows so, and may repeat the operation.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from headrace.core import operations as ops
from headrace.drivers.redis import address as addresses
from headrace.drivers.redis.exchange import Scripts
from headrace.drivers.redis.line import Line, Lines
from headrace.drivers.redis.pipe import Pipe
from headrace.drivers.redis.wakeup import RedisWakeup
from headrace.drivers.run import arun, run
from headrace.stores.plan import Plan, Step

R = TypeVar("R")

GRACE = 5.0  # seconds that an operation may go on after its caller was cancelled


class RedisPlans(Protocol):
    """What the driver asks of its store."""

    @property
    def scripts(self) -> Mapping[str, str]:
        """The text of every script by name."""
        ...

    def wake_key(self, queue: str) -> str:
        """The list that is rung for a queue."""
        ...

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of an operation."""
        ...


class RedisDriver:
    """Runs plans on a server. Each new connection looks at the server first: it may be another one by now.

    `url`: redis://, rediss:// or unix://, see `address.parse`; a client object is refused (B104). `?socket_timeout=`
    is in seconds (5): a command without an answer by then closes its connection. `?allow_eviction=1` is for whoever
    makes the store: `RedisStore(allow_eviction=parse(url).allow_eviction)`. `observe` is called with every step
    (for tests).

    Raises:
        ConfigError: the URL cannot be read.
    """

    def __init__(self, url: str, store: RedisPlans, *, observe: Callable[[Step], None] | None = None) -> None:
        self.store = store
        self.address = addresses.parse(url)
        self.observe = observe
        self._scripts = Scripts(store.scripts)
        self._lines = Lines()
        self._pipes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedPipe] = weakref.WeakKeyDictionary()
        self._orphans: set[asyncio.Task[Any]] = set()

    def run(self, operation: ops.Operation[R]) -> R:
        """Run in this thread."""
        line = self._lines.take() or self._new_line()
        try:
            return run(self.store.plan(operation), self._observed(line.execute))
        finally:
            self._lines.put_back(line)

    def _new_line(self) -> Line:
        line = Line(self.address, self._scripts)
        try:
            run(self.store.plan(ops.Prepare()), line.execute)
        except BaseException:
            line.close()
            raise
        return line

    def _observed(self, execute: Callable[[Step], R]) -> Callable[[Step], R]:
        observe = self.observe
        if observe is None:
            return execute

        def observed(step: Step) -> R:
            observe(step)
            return execute(step)

        return observed

    async def arun(self, operation: ops.Operation[R]) -> R:
        """Run in a task of its own: a caller that is cancelled leaves it to finish."""
        loop = asyncio.get_running_loop()
        shared = self._pipes.get(loop)
        if shared is None:
            shared = self._pipes[loop] = _SharedPipe(self._new_pipe)
        task = loop.create_task(self._arun(shared, operation))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._orphans.add(task)
                stop = loop.call_later(GRACE, task.cancel)
                task.add_done_callback(lambda done: self._buried(done, stop))
            raise

    async def _arun(self, shared: _SharedPipe, operation: ops.Operation[R]) -> R:
        pipe = shared.pipe
        if pipe is None or not pipe.open:
            pipe = await shared.get()
        return await arun(self.store.plan(operation), self._observed(pipe.execute))

    async def _new_pipe(self) -> Pipe:
        pipe = await Pipe.connect(self.address, self._scripts)
        try:
            await arun(self.store.plan(ops.Prepare()), pipe.execute)
        except BaseException:
            pipe.abort()
            raise
        return pipe

    def _buried(self, task: asyncio.Task[Any], stop: asyncio.TimerHandle) -> None:
        """Nobody hears how an orphan ended; its error is looked at, so that the loop does not complain."""
        stop.cancel()
        self._orphans.discard(task)
        if not task.cancelled():
            task.exception()

    def wakeup(self, worker: str, queues: Sequence[str]) -> RedisWakeup:
        """Listen for jobs in `queues`, on a connection of its own."""
        return RedisWakeup(self.address, [self.store.wake_key(queue) for queue in queues])

    def describe(self) -> str:
        """The address without its password."""
        return str(self.address)

    def close(self) -> None:
        """Close what `run` opened. Used again, the driver opens again."""
        self._lines.close()

    async def aclose(self) -> None:
        """Close that and the connection of the running loop."""
        self.close()
        if self._orphans:
            await asyncio.wait(set(self._orphans), timeout=GRACE)
        shared = self._pipes.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await shared.aclose()


class _SharedPipe:
    """The pipe of one loop, opened when needed and again after a loss; all who wait for it share one attempt.

    Those who wait may be cancelled, all of them: the attempt goes on, and what it brings is for the next one.
    """

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, Pipe]]) -> None:
        self._connect = connect
        self._attempt: asyncio.Task[Pipe] | None = None
        self.pipe: Pipe | None = None

    async def get(self) -> Pipe:
        """An open pipe. Each caller of a failed attempt gets its error; the next call tries again."""
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_task(self._connect())
            self._attempt.add_done_callback(self._ended)  # before anybody who waits is told
        return await asyncio.shield(self._attempt)

    def _ended(self, attempt: asyncio.Task[Pipe]) -> None:
        """Keep the pipe. An error is for those who wait; when nobody does, it is looked at, so that none complains."""
        if not attempt.cancelled() and attempt.exception() is None:
            self.pipe = attempt.result()

    async def aclose(self) -> None:
        """Close it."""
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        if self.pipe is not None:
            await self.pipe.aclose()
