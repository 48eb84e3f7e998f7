"""Runs the plans of the PostgreSQL store, for threads, event loops and forked children alike."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import psycopg

from headrace.core import operations as ops
from headrace.core.ringing import rings
from headrace.drivers.postgres import address as addresses
from headrace.drivers.postgres import problems
from headrace.drivers.postgres.bell import Bell, queues_of
from headrace.drivers.postgres.line import LISTEN, AsyncLine, Line, Statements
from headrace.drivers.postgres.pool import LoopPool, Pool
from headrace.drivers.postgres.wakeup import PostgresWakeup
from headrace.errors import StoreError, StoreUnavailable
from headrace.stores.plan import Plan, Statement

logger = logging.getLogger("headrace.postgres")

R = TypeVar("R")

GRACE_S = 5.0  # that an operation may go on after its caller was cancelled
PREPARE_S = 120.0  # that a change of the schema may take, others' changes before it included
TRIES = 5  # of an operation that the server undid because of a conflict
PAUSE_S = 0.01


class SQLStore(Protocol):
    """What this driver needs of its store."""

    @property
    def sql(self) -> Mapping[str, str]:
        """Every statement by name."""
        ...

    def plan(self, operation: ops.Operation[R]) -> Plan[R]:
        """The steps of an operation."""
        ...


class _Here:
    """What one process has open. A fork starts anew and leaves the parent's connections alone (B121)."""

    def __init__(self, driver: PostgresDriver) -> None:
        self.process = os.getpid()
        self.pool = Pool(driver.address, driver.statements)
        self.bell = Bell(driver.send_hints)
        self.loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopPool] = weakref.WeakKeyDictionary()

    def loop_pool(self, driver: PostgresDriver) -> LoopPool:
        """The pool of the running loop. Those of loops that are closed are forgotten."""
        loop = asyncio.get_running_loop()
        pool = self.loops.get(loop)
        if pool is None:
            for other in [other for other in self.loops if other.is_closed()]:
                self.loops.pop(other).forget()
            pool = self.loops[loop] = LoopPool(driver.address, driver.statements)
        return pool


class _Running:
    """An operation under way for an asynchronous caller."""

    line: AsyncLine | None = None


class PostgresDriver:
    """A PostgreSQL server for synchronous and asynchronous callers, several threads, loops and processes.

    `url`: see `address.parse`. Connections are opened when they are needed; the first operation of a process looks
    whether the schema is there and up to date.

    Raises:
        ConfigError: the URL cannot be read.
    """

    def __init__(self, url: str, store: SQLStore) -> None:
        self.address = addresses.parse(url)
        self.store = store
        self.statements = Statements(store.sql)
        self._prepared = False
        self._here: _Here | None = None
        self._orphans: set[asyncio.Task[Any]] = set()

    def _mine(self) -> _Here:
        here = self._here
        if here is None or here.process != os.getpid():
            here = self._here = _Here(self)
            self._orphans = set()
        return here

    # -- synchronous callers

    def run(self, operation: ops.Operation[R]) -> R:
        """Run in this thread."""
        attempt = 1
        while True:
            try:
                return self._run(operation)
            except Exception as error:
                if not self._again(error, attempt):
                    raise problems.translate(error, self.address) from error
            time.sleep(PAUSE_S * attempt * random.random())
            attempt += 1

    def _run(self, operation: ops.Operation[R]) -> R:
        here = self._mine()
        urgent = isinstance(operation, ops.Beat)
        line = here.pool.take(urgent=urgent)
        try:
            if not operation.needs_schema:
                return self._change(line, operation)
            if not self._prepared:
                self._change(line, ops.Prepare())
                self._prepared = True
            answer = line.run(self.store.plan(operation))
            if rings(operation, answer) and (queues := here.bell.due(queues_of(operation, answer))):
                with contextlib.suppress(psycopg.Error, StoreUnavailable):  # a hint; the operation took place
                    line.notify(queues)
        except Exception as error:
            self._learn(error, line)
            raise
        finally:
            here.pool.put_back(line, urgent=urgent)
        return answer

    def _change(self, line: Line, operation: ops.Operation[R]) -> R:
        """Run an operation on the schema itself, with time to wait; the next operation looks at the schema anew."""
        self._prepared = False
        patience, line.connection.deadline.seconds = line.connection.deadline.seconds, PREPARE_S
        answer = line.run(self.store.plan(operation))
        line.connection.deadline.seconds = patience
        return answer

    def ring(self, queues: list[str]) -> None:
        """Wake the workers of these queues, after somebody else's commit; not for each of many."""
        if ready := self._mine().bell.due(queues):
            self.send_hints(ready)

    def send_hints(self, queues: list[str]) -> None:
        """Send hints now, from whichever thread; a bell calls it for those that had to wait."""
        pool = self._mine().pool
        try:
            line = pool.take(urgent=True)
            try:
                line.notify(queues)
            finally:
                pool.put_back(line, urgent=True)
        except (psycopg.Error, StoreError) as error:
            logger.debug("a hint was lost: %s", error)

    # -- asynchronous callers

    async def arun(self, operation: ops.Operation[R]) -> R:
        """Run in a task of its own: a caller that is cancelled leaves it to finish."""
        running = _Running()
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._arun_until_done(operation, running))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._orphans.add(task)
                stop = loop.call_later(GRACE_S, _stop, task, running)
                task.add_done_callback(lambda done: self._buried(done, stop))
            raise

    def _buried(self, task: asyncio.Task[Any], stop: asyncio.TimerHandle) -> None:
        """Nobody hears how an orphan ended; its error is looked at, so that the loop does not complain."""
        stop.cancel()
        self._orphans.discard(task)
        if not task.cancelled():
            task.exception()

    async def _arun_until_done(self, operation: ops.Operation[R], running: _Running) -> R:
        attempt = 1
        while True:
            try:
                return await self._arun(operation, running)
            except Exception as error:
                if not self._again(error, attempt):
                    raise problems.translate(error, self.address) from error
            await asyncio.sleep(PAUSE_S * attempt * random.random())
            attempt += 1

    async def _arun(self, operation: ops.Operation[R], running: _Running) -> R:
        here = self._mine()
        pool = here.loop_pool(self)
        urgent = isinstance(operation, ops.Beat)
        line = running.line = await pool.take(urgent=urgent)
        try:
            if not operation.needs_schema:
                return await self._achange(line, operation)
            if not self._prepared:
                await self._achange(line, ops.Prepare())
                self._prepared = True
            answer = await line.run(self.store.plan(operation))
            if rings(operation, answer) and (queues := here.bell.due(queues_of(operation, answer))):
                with contextlib.suppress(psycopg.Error, StoreUnavailable):  # a hint; the operation took place
                    await line.notify(queues)
        except Exception as error:
            self._learn(error, line)
            raise
        finally:
            running.line = None
            pool.put_back(line, urgent=urgent)
        return answer

    async def _achange(self, line: AsyncLine, operation: ops.Operation[R]) -> R:
        self._prepared = False
        patience, line.connection.deadline.seconds = line.connection.deadline.seconds, PREPARE_S
        answer = await line.run(self.store.plan(operation))
        line.connection.deadline.seconds = patience
        return answer

    # -- both

    def _again(self, error: Exception, attempt: int) -> bool:
        """Whether the server has undone the operation for a conflict with another transaction, so that it may be tried
        again."""
        return isinstance(error, psycopg.Error) and error.sqlstate in problems.UNDONE and attempt < TRIES

    def _learn(self, error: Exception, line: Line | AsyncLine) -> None:
        """After some errors the next operation had better begin with a new connection, or with a look at the schema."""
        if not isinstance(error, psycopg.Error):
            return
        if error.sqlstate in {problems.STANDBY, problems.STALE_PLAN}:
            line.connection.pgconn.finish()
        if error.sqlstate in problems.MISSING:
            self._prepared = False

    def wakeup(self, worker: str, queues: Sequence[str]) -> PostgresWakeup:
        """Listen for jobs in `queues`, on a connection of its own."""
        return PostgresWakeup(self.address.listening(), self.statements.of(Statement(LISTEN))[0], queues)

    def describe(self) -> str:
        """The address without its password."""
        return str(self.address)

    def close(self) -> None:
        """Close what `run` opened. Used again, the driver opens again."""
        here = self._here
        if here is not None and here.process == os.getpid():
            here.bell.close()
            here.pool.close()

    async def aclose(self) -> None:
        """Close that and the connections of the running loop."""
        if self._orphans:
            await asyncio.wait(set(self._orphans), timeout=GRACE_S)
        await asyncio.to_thread(self.close)
        here = self._here
        if here is not None and here.process == os.getpid():
            pool = here.loops.pop(asyncio.get_running_loop(), None)
            if pool is not None:
                pool.close()


def _stop(task: asyncio.Task[Any], running: _Running) -> None:
    """The grace of a cancelled operation is over: its connection is given up."""
    if running.line is not None:
        running.line.connection.deadline.expire()
    else:
        task.cancel()
