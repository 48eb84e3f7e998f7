"""Connections that give up: a server that is frozen, or a way to it that is cut, keeps nobody waiting for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any, TypeVar, cast

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from headrace.drivers.postgres.address import Address
from headrace.drivers.postgres.arrays import ListDumper
from headrace.errors import StoreUnavailable

RV = TypeVar("RV")

INTERVAL_S = 0.1  # how often a waiting connection looks at its deadline
PREPARE_AFTER = 1  # executions after which a statement is prepared on the server


class Deadline:
    """Seconds that each wait for an answer may take, and a moment after which none may take any longer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.last = float("inf")

    def expire(self) -> None:
        """Whoever waits stops waiting."""
        self.last = 0.0

    def bound(self, steps: PQGen[RV]) -> Generator[Any, Any, RV]:
        """The steps of an exchange, until the time is over.

        Raises:
            StoreUnavailable: there was no answer in time; the connection is of no use any more.
        """
        until = time.monotonic() + self.seconds
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > min(until, self.last):
                    raise StoreUnavailable(f"no answer within {self.seconds:g} s")
                wanted = steps.send(ready)
        except StopIteration as stop:
            return cast("RV", stop.value)


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """For synchronous callers. When a wait is interrupted, nothing more is asked of the server: it is closed."""

    deadline = Deadline(float("inf"))
    process = 0

    def wait(self, gen: PQGen[RV], interval: float = INTERVAL_S, timeout: float | None = None) -> RV:
        """Wait for an answer until the deadline."""
        return waiting.wait(self.deadline.bound(gen), self.pgconn.socket, interval=interval or INTERVAL_S)

    def __del__(self, *_: object) -> None:
        """Dropped with its process or its thread: closed without a word, in the process that opened it (B121)."""
        if self.process == os.getpid():
            self.pgconn.finish()


class AsyncConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """For asynchronous callers; the same."""

    deadline = Deadline(float("inf"))
    process = 0

    async def wait(self, gen: PQGen[RV], interval: float = INTERVAL_S, timeout: float | None = None) -> RV:
        """Wait for an answer until the deadline."""
        return await waiting.wait_async(self.deadline.bound(gen), self.pgconn.socket, interval=interval or INTERVAL_S)

    def __del__(self, *_: object) -> None:
        """Dropped with its loop: closed without a word, in the process that opened it."""
        if self.process == os.getpid():
            self.pgconn.finish()


def open_connection(address: Address) -> Connection:
    """A connection in autocommit mode: whoever wants a transaction begins it."""
    raw = Connection.connect(**_arguments(address))
    return _made_ready(raw, address)


async def aopen_connection(address: Address) -> AsyncConnection:
    """The same for an event loop."""
    raw = await AsyncConnection.connect(**_arguments(address))
    return _made_ready(raw, address)


C = TypeVar("C", Connection, AsyncConnection)


def _arguments(address: Address) -> dict[str, Any]:
    threshold = None if address.pgbouncer else PREPARE_AFTER
    return address.connecting() | {"autocommit": True, "prepare_threshold": threshold}


def _made_ready(connection: C, address: Address) -> C:
    connection.process = os.getpid()
    connection.deadline = Deadline(address.timeout)
    connection.adapters.register_dumper(list, ListDumper)
    return connection


def is_idle(connection: Connection | AsyncConnection) -> bool:
    """Whether nothing is under way on it: no answer outstanding, no transaction open."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def is_midway(connection: Connection | AsyncConnection) -> bool:
    """Whether an answer is outstanding, or the connection is lost: nobody else may use it."""
    return connection.pgconn.transaction_status in {TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN}
