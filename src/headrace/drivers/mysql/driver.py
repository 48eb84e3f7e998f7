"""Runs the plans of the MySQL store, for threads, event loops and forked children alike.

A transaction that lost against another is begun anew a few times. A lost connection is never answered by sending
again: whether the operation took place is unknown then, and the caller is told so.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from headrace.core import operations as ops
from headrace.core.ringing import rings
from headrace.drivers.mysql import address as addresses
from headrace.drivers.mysql.aline import AsyncLine, AsyncLines
from headrace.drivers.mysql.line import Line, Lines
from headrace.drivers.mysql.problems import Contended
from headrace.drivers.mysql.text import Texts
from headrace.drivers.mysql.wakeup import Bells, MySQLWakeup, Watch
from headrace.stores.plan import Plan

R = TypeVar("R")

GRACE = 5.0  # seconds that an operation may go on after its caller was cancelled
AGAIN_S = (0.001, 0.1)  # pauses before a transaction is begun anew: the first and the longest
AGAIN_FOR_S = 10.0


class SQLStore(Protocol):
    """What this driver needs of its store."""

    sql: Mapping[str, str]

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of an operation."""
        ...

    def watch(self, queues: Sequence[str]) -> Watch:
        """The steps of one who waits for work."""
        ...


class MySQLDriver:
    """A MySQL or MariaDB database for synchronous and asynchronous callers.

    `url`: mysql:// or mariadb://, see `address.parse`. Nothing is opened before the first operation, which brings the
    schema up to date.

    Raises:
        ConfigError: the URL cannot be read.
    """

    def __init__(self, url: str, store: SQLStore) -> None:
        self.store = store
        self.address = addresses.parse(url)
        self._texts = Texts(store.sql)
        self._lines = Lines()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncLines] = weakref.WeakKeyDictionary()
        self._orphans: set[asyncio.Task[Any]] = set()
        self._prepared_in: int | None = None  # the process that has seen an up-to-date schema
        self._bells = Bells()

    def run(self, operation: ops.Operation[R]) -> R:
        """Run in this thread."""
        line = self._lines.take() or Line(self.address, self._texts)
        try:
            if operation.needs_schema and self._prepared_in != os.getpid():
                line.run(self.store.plan(ops.Prepare()), writes=False)
                self._prepared_in = os.getpid()
            answer = self._attempts(line, operation)
        finally:
            self._lines.put_back(line)
        self._learn(operation)
        self._ring(operation, answer)
        return answer

    def _attempts(self, line: Line, operation: ops.Operation[R]) -> R:
        pauses = _pauses()
        while True:
            try:
                return cast("R", line.run(self.store.plan(operation), writes=_writes(operation)))
            except Contended:
                pause = next(pauses, None)
                if pause is None or not line.usable:
                    raise
            time.sleep(pause)

    async def arun(self, operation: ops.Operation[R]) -> R:
        """Run in a task of its own: a caller that is cancelled leaves it to finish."""
        loop = asyncio.get_running_loop()
        lines = self._loops.get(loop)
        if lines is None:
            lines = self._loops[loop] = AsyncLines()
        task = loop.create_task(self._arun(lines, operation))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._orphans.add(task)
                stop = loop.call_later(GRACE, task.cancel)
                task.add_done_callback(lambda done: self._buried(done, stop))
            raise

    async def _arun(self, lines: AsyncLines, operation: ops.Operation[R]) -> R:
        line = await lines.take()
        try:
            if line is None:
                line = await AsyncLine.connect(self.address, self._texts)
            if operation.needs_schema and self._prepared_in != os.getpid():
                await line.run(self.store.plan(ops.Prepare()), writes=False)
                self._prepared_in = os.getpid()
            answer = await self._aattempts(line, operation)
        finally:
            lines.put_back(line)
        self._learn(operation)
        self._ring(operation, answer)
        return answer

    async def _aattempts(self, line: AsyncLine, operation: ops.Operation[R]) -> R:
        pauses = _pauses()
        while True:
            try:
                return cast("R", await line.run(self.store.plan(operation), writes=_writes(operation)))
            except Contended:
                pause = next(pauses, None)
                if pause is None or not line.usable:
                    raise
            await asyncio.sleep(pause)

    def _learn(self, operation: ops.Operation[Any]) -> None:
        """After an operation on the schema itself, the next one looks at it anew."""
        if not operation.needs_schema:
            self._prepared_in = None

    def ring(self, queues: list[str]) -> None:
        """Wake the workers of this process, after somebody else's commit; others look for themselves."""
        self._bells.ring()

    def _ring(self, operation: object, answer: object) -> None:
        if rings(operation, answer):
            self._bells.ring()

    def _buried(self, task: asyncio.Task[Any], stop: asyncio.TimerHandle) -> None:
        """Nobody hears how an orphan ended; its error is looked at, so that the loop does not complain."""
        stop.cancel()
        self._orphans.discard(task)
        if not task.cancelled():
            task.exception()

    def wakeup(self, worker: str, queues: Sequence[str]) -> MySQLWakeup:
        """Listen for jobs in `queues`."""
        return MySQLWakeup(
            self._bells, lambda: self.store.watch(queues), lambda: AsyncLine.connect(self.address, self._texts)
        )

    def describe(self) -> str:
        """The address without its password."""
        return str(self.address)

    def close(self) -> None:
        """Close what `run` opened. Used again, the driver opens again."""
        self._lines.close()

    async def aclose(self) -> None:
        """Close that and the connections of the running loop."""
        self.close()
        if self._orphans:
            await asyncio.wait(set(self._orphans), timeout=GRACE)
        lines = self._loops.pop(asyncio.get_running_loop(), None)
        if lines is not None:
            lines.close()


def _writes(operation: ops.Operation[Any]) -> bool:
    """Whether it needs a transaction; a change of the schema commits by itself."""
    return operation.writes and operation.needs_schema and not isinstance(operation, ops.Prepare)


def _pauses() -> Iterator[float]:
    """Growing, jittered pauses in seconds."""
    until = time.monotonic() + AGAIN_FOR_S
    ceiling, most = AGAIN_S
    while time.monotonic() < until:
        yield ceiling * (0.5 + random.random())
        ceiling = min(most, ceiling * 2)
