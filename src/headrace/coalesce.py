"""Group commit for concurrent enqueues: while one is in flight, the jobs of other callers gather for the next.

There are no timers: a lone caller waits for nothing, and fifty at once share one round trip. Many jobs of one call are
made ready while those before them are in flight.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from headrace.core.operations import Enqueue, Enqueued, NewJob
from headrace.errors import StoreUnavailable
from headrace.sending import CAP_S, FIRST_S, App, Sender, as_new

R = TypeVar("R")

MOST = 1_000  # jobs of one operation


class Waiting:
    """A job whose caller waits for the store's answer."""

    __slots__ = ("answer", "give_up", "job")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.answer: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
        self.give_up: float | None = None  # set once the store has failed to answer


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
        try:
            return await self.send_once(jobs)
        except StoreUnavailable as error:
            last = error
        for pause in self._sender.pauses():
            await asyncio.sleep(pause)
            try:
                return await self.send_once(jobs)
            except StoreUnavailable as error:
                last = error
        raise last

    async def send_once(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """The same, without a second try."""
        return as_new(jobs, await self._app.driver.arun(Enqueue(tuple(jobs))))

    async def send_one(self, job: NewJob) -> Enqueued:
        """Store one job, together with those of other coroutines of this loop that wait at the same time."""
        return await self._line().add(job)

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            with self._lock:
                line = self._lines.setdefault(loop, Line(self.send_once, self._sender))
        return line


class Line:
    """Jobs of one event loop that wait for the operation in flight.

    What a silent store left unanswered goes again with all that has gathered meanwhile, so that everybody has waited
    for one resend time, and not one after the other, when all give up.
    """

    def __init__(self, send: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]], sender: Sender) -> None:
        self._send = send
        self._sender = sender
        self._waiting: list[Waiting] = []
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    async def add(self, job: NewJob) -> Enqueued:
        """Send at once when nothing is in flight, else with the next operation."""
        if self._busy:
            entry = Waiting(job)
            self._waiting.append(entry)
            return await entry.answer
        self._busy = True
        ceiling = 0.0
        try:
            return (await self._send((job,)))[0]
        except StoreUnavailable as error:
            entry, ceiling = Waiting(job), FIRST_S
            self._unanswered([entry], error)
        finally:
            # also when this caller was cancelled: the others must not wait for ever
            if self._waiting:
                drain = self._drain(ceiling)
                self._task = asyncio.get_running_loop().create_task(drain, name="headrace-enqueue")
            else:
                self._busy = False
        return await entry.answer

    async def _drain(self, ceiling: float) -> None:
        """Send until nobody waits. `ceiling` bounds the pause before the next try; 0 while the store answers."""
        batch: list[Waiting] = []
        try:
            while self._waiting:
                await self._pause(ceiling)
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                answered = await self._send_batch([entry for entry in batch if not entry.answer.done()])
                ceiling = 0.0 if answered else min(CAP_S, ceiling * 2 or FIRST_S)
        finally:
            self._busy = False
            self._task = None
            # only when this task was cancelled: the loop is being closed, and nobody may be left waiting
            for entry in (*batch, *self._waiting):
                entry.answer.cancel()
            self._waiting = []

    async def _pause(self, ceiling: float) -> None:
        if ceiling:
            ends = [entry.give_up for entry in self._waiting if entry.give_up is not None]
            await asyncio.sleep(self._sender.pause(ceiling, min(ends, default=None)))

    async def _send_batch(self, batch: list[Waiting]) -> bool:
        """Whether the store answered."""
        if not batch:
            return True
        try:
            answers = await self._send([entry.job for entry in batch])
        except StoreUnavailable as error:
            self._unanswered(batch, error)
            return False
        except Exception as error:  # noqa: BLE001 - handed to the callers it concerns
            if len(batch) == 1:
                _fail(batch[0], error)
                return True
            # one job's trouble is not the others': each goes alone, which is safe since ids decide
            return all([await self._send_batch([entry]) for entry in batch])
        for entry, enqueued in zip(batch, answers, strict=True):
            if not entry.answer.done():
                entry.answer.set_result(enqueued)
        return True

    def _unanswered(self, batch: list[Waiting], error: StoreUnavailable) -> None:
        """Those of `batch` whose time is over have failed; the others go again."""
        now = self._sender.now()
        for entry in (*batch, *self._waiting):
            if entry.give_up is None:  # from here on for those, too, that have only waited
                entry.give_up = now + self._sender.resend_s
        left = []
        for entry in batch:
            if entry.give_up is not None and entry.give_up > now:
                left.append(entry)
            else:
                _fail(entry, StoreUnavailable(str(error)))
        self._waiting = left + self._waiting


def _fail(entry: Waiting, error: Exception) -> None:
    if not entry.answer.done():
        entry.answer.set_exception(error)


async def send_ahead(
    pieces: Iterable[list[NewJob]], send: Callable[[list[NewJob]], Awaitable[list[R]]], answers: list[R]
) -> None:
    """Send all `pieces` in chunks of `MOST`, one at a time; `answers` grow as the store gives them.

    Between two pieces the loop does what else there is to do. Where one cannot be made, what is in flight still ends
    first, and counts.
    """
    in_flight: asyncio.Future[list[R]] | None = None
    try:
        async for chunk in _chunks(pieces):
            before, in_flight = in_flight, None
            if before is not None:
                answers += await before
            in_flight = asyncio.ensure_future(send(chunk))
    except Exception:
        if in_flight is not None:
            answers += await in_flight
        raise
    except BaseException:
        if in_flight is not None:
            in_flight.cancel()
        raise
    if in_flight is not None:
        answers += await in_flight


async def _chunks(pieces: Iterable[list[NewJob]]) -> AsyncIterator[list[NewJob]]:
    chunk: list[NewJob] = []
    for piece in pieces:
        chunk += piece
        if len(chunk) >= MOST:
            yield chunk
            chunk = []
        await asyncio.sleep(0)
    if chunk:
        yield chunk
