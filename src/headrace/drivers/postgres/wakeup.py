"""The wake-up: LISTEN on a connection of its own. It carries no job and may fail; the truth is polled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import psycopg

from headrace.drivers.postgres.bell import EVERYBODY
from headrace.drivers.postgres.connection import AsyncConnection, Deadline

BACKOFF_S = (0.05, 2.0)  # between attempts to connect, growing from the first to the second
ANSWER_S = 5.0


class PostgresWakeup:
    """Waits for hints about some queues. Connects, and connects again, by itself (B026).

    `parameters` are those of a connection that reaches the server itself: a pooler would forget who listens. None:
    nobody is listening, and every wait takes its full time. `listen` is the statement that makes a connection listen.
    """

    def __init__(self, parameters: dict[str, Any] | None, listen: bytes, queues: Sequence[str]) -> None:
        self._parameters = parameters
        self._listen = listen
        self._queues = {queue.encode() for queue in queues} | {EVERYBODY.encode()}
        self._connection: AsyncConnection | None = None
        self._socket = -1
        self._attempt: asyncio.Task[None] | None = None
        self._rung = asyncio.Event()
        self._failures = 0
        self._closed = False

    async def wait(self, timeout: float) -> bool:
        """True when rung, False after `timeout` seconds."""
        if self._closed:
            return False
        self._keep_listening()
        try:
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return not self._closed

    def _keep_listening(self) -> None:
        if self._parameters is None or self._connection is not None:
            return
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_task(self._connect(self._parameters))

    async def _connect(self, parameters: dict[str, Any]) -> None:
        """One attempt after another, until one succeeds."""
        while not self._closed:
            try:
                connection = await AsyncConnection.connect(**parameters, autocommit=True)
                connection.deadline = Deadline(ANSWER_S)
                await connection.execute(self._listen)
            except (psycopg.Error, OSError):
                self._failures += 1
                least, most = BACKOFF_S
                await asyncio.sleep(min(most, least * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1))
                continue
            self._failures = 0
            self._connection = connection
            self._socket = connection.pgconn.socket  # which a connection that is lost does not tell any more
            asyncio.get_running_loop().add_reader(self._socket, self._hear, connection)
            self._rung.set()  # what came before this is unknown: look once
            return

    def _hear(self, connection: AsyncConnection) -> None:
        """Something has arrived: hints, or the end of the connection."""
        try:
            connection.pgconn.consume_input()
            while (hint := connection.pgconn.notifies()) is not None:
                if hint.extra in self._queues:
                    self._rung.set()
        except psycopg.Error:
            self._drop()
            self._keep_listening()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            connection.pgconn.finish()

    async def aclose(self) -> None:
        """Stop listening. May be called twice."""
        self._closed = True
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.cancel()
            await asyncio.wait({attempt})
        self._drop()
        self._rung.set()
