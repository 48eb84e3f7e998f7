"""Group commit for concurrent enqueues: while one is in flight, the jobs of other callers gather for the next.

There are no timers: a lone caller waits for nothing, and fifty at once share one round trip.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence

from headrace.core.operations import Enqueue, Enqueued, NewJob
from headrace.errors import StoreUnavailable
from headrace.sending import App, Sender, as_new

MOST = 1_000  # jobs of one operation

Waiting = tuple[NewJob, "asyncio.Future[Enqueued]"]


class AsyncSender:
    """Enqueues for coroutines; each event loop has its own line."""

    def __init__(self, app: App, sender: Sender) -> None:
        self._app = app
        self._sender = sender
        self._lock = threading.Lock()
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = weakref.WeakKeyDictionary()

    async def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store `jobs`, all or none; answers stand in their order.

        Raises:
            StoreUnavailable: the store did not answer for `resend` seconds. The jobs may have been stored or not.
        """
        operation = Enqueue(tuple(jobs))
        try:
            return as_new(jobs, await self._app.driver.arun(operation))
        except StoreUnavailable as error:
            last = error
        for pause in self._sender.pauses():
            await asyncio.sleep(pause)
            try:
                return as_new(jobs, await self._app.driver.arun(operation))
            except StoreUnavailable as error:
                last = error
        raise last

    async def send_one(self, job: NewJob) -> Enqueued:
        """Store one job, together with those of other coroutines of this loop that wait at the same time."""
        return await self._line().add(job)

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            with self._lock:
                line = self._lines.setdefault(loop, Line(self.send))
        return line


class Line:
    """Jobs of one event loop that wait for the operation in flight."""

    def __init__(self, send: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]]) -> None:
        self._send = send
        self._waiting: list[Waiting] = []
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    async def add(self, job: NewJob) -> Enqueued:
        """Send at once when nothing is in flight, else with the next operation."""
        if self._busy:
            answer: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
            self._waiting.append((job, answer))
            return await answer
        self._busy = True
        try:
            return (await self._send((job,)))[0]
        finally:
            # also when this caller was cancelled: the others must not wait for ever
            if self._waiting:
                self._task = asyncio.get_running_loop().create_task(self._drain(), name="headrace-enqueue")
            else:
                self._busy = False

    async def _drain(self) -> None:
        batch: list[Waiting] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._send_batch([entry for entry in batch if not entry[1].done()])
        finally:
            self._busy = False
            self._task = None
            # only when this task was cancelled: the loop is being closed, and nobody may be left waiting
            for _, answer in (*batch, *self._waiting):
                answer.cancel()
            self._waiting = []

    async def _send_batch(self, batch: list[Waiting]) -> None:
        if not batch:
            return
        try:
            answers = await self._send([job for job, _ in batch])
        except StoreUnavailable as error:
            for _, answer in batch:
                _fail(answer, StoreUnavailable(str(error)))
        except Exception as error:  # noqa: BLE001 - handed to the callers it concerns
            if len(batch) == 1:
                _fail(batch[0][1], error)
                return
            # one job's trouble is not the others': each goes alone, which is safe since ids decide
            for entry in batch:
                await self._send_batch([entry])
        else:
            for (_, answer), enqueued in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(enqueued)


def _fail(answer: asyncio.Future[Enqueued], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
