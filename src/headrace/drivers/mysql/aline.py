"""The connection of an asynchronous caller, and those of one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from asyncmy import errors
from asyncmy.connection import Connection

from headrace.drivers.mysql.address import Address
from headrace.drivers.mysql.line import PING_AFTER_S, session_steps
from headrace.drivers.mysql.problems import is_lost, translate
from headrace.drivers.mysql.silence import is_silent
from headrace.drivers.mysql.text import Kept, Texts
from headrace.drivers.run import arun
from headrace.errors import StoreError
from headrace.stores.plan import Plan, Statement, Step

MOST = 8  # connections of one loop: a server has 151 for everybody


class AsyncLine:
    """One connection. A task takes it, uses it, puts it back."""

    def __init__(self, address: Address, texts: Texts, raw: Any) -> None:
        self._address = address
        self._texts = texts
        self._raw = raw
        self._loop = asyncio.get_running_loop()
        self.usable = True
        self._in_transaction = False
        self._kept = Kept()
        self._used_at = self._loop.time()

    @classmethod
    async def connect(cls, address: Address, texts: Texts) -> AsyncLine:
        """Open one and set it up.

        Raises:
            StoreUnavailable: nobody answers.
            StoreMisconfigured: we are not let in.
        """
        raw: Any = Connection(**address.arguments(), connect_timeout=address.connect_timeout)  # type: ignore[no-untyped-call]
        line = cls(address, texts, raw)
        try:
            # the library times the connect alone: one that is accepted and never greeted would last for ever
            async with asyncio.timeout(address.connect_timeout):
                await raw.connect()
        except (errors.MySQLError, OSError, RuntimeError) as error:
            line.drop()
            raise translate(error, errors, address) from error
        except BaseException:
            line.drop()
            raise
        try:
            for step in session_steps(address):
                await line.execute(step)
        except BaseException:
            line.drop()
            raise
        return line

    async def run(self, plan: Plan[Any], *, writes: bool) -> Any:
        """Carry out a plan, in one transaction where it writes. An error undoes it."""
        try:
            answer = await arun(plan, self.transact if writes else self.execute)
            await self._end("commit")
        except BaseException as error:
            await self._undo(error)
            raise
        return answer

    async def transact(self, step: Step) -> Any:
        """Carry out one step in a transaction, which begins with the first that needs one."""
        if not self._in_transaction and not (isinstance(step, Statement) and step.alone):
            self._in_transaction = True
            self._kept.add("begin")
        if isinstance(step, Statement) and step.mute and self._in_transaction:
            for packet in self._texts.packets(step):
                if self._kept.add(packet):
                    await self._query(self._kept.take())
            return []
        return await self.execute(step)

    async def execute(self, step: Step) -> Any:
        """Carry out one step as it is."""
        rows: Any = []
        for packet in self._texts.packets(step):
            rows = await self._query(self._kept.take(packet))
        return rows

    async def _query(self, text: str) -> Any:
        """Send some statements; the rows of the last one.

        Raises:
            StoreError: or one of its kind; `usable` tells whether the connection still is.
        """
        self.usable = False  # until every answer has been read
        cursor = self._raw.cursor()
        try:
            await cursor.execute(text)
            rows = await cursor.fetchall()
            while await cursor.nextset():
                rows = await cursor.fetchall()
        except (errors.MySQLError, OSError, RuntimeError) as error:
            self.usable = not is_lost(error)
            raise translate(error, errors, self._address) from error
        self.usable = True
        return rows

    async def _end(self, how: str) -> None:
        if self._in_transaction:
            await self._query(self._kept.take(how))
            self._in_transaction = False

    async def _undo(self, error: BaseException) -> None:
        """Roll back; a connection that cannot even do that is given up."""
        if not isinstance(error, Exception) or not self.usable:
            self.drop()
            return
        self._kept = Kept()
        try:
            await self._end("rollback")
        except BaseException as second:
            self.drop()
            if not isinstance(second, StoreError):
                raise

    async def works(self) -> bool:
        """False when the server has hung up, or does not answer after a long rest."""
        if not self.usable or not _is_silent(self._raw):
            return False
        if self._loop.time() - self._used_at > PING_AFTER_S:
            try:
                await self._raw.ping(reconnect=False)
            except (errors.MySQLError, OSError, RuntimeError):
                return False
        return True

    def rest(self) -> None:
        """Note the time."""
        self._used_at = self._loop.time()

    def drop(self) -> None:
        """Close at once, without a goodbye; also from a loop that is over."""
        self.usable = False
        with contextlib.suppress(RuntimeError):  # its loop is closed
            transport = self._raw._transport  # noqa: SLF001 - its own `close` waits until all is sent
            if transport is not None:
                transport.abort()
            self._raw.close()


def _is_silent(raw: Any) -> bool:
    """Whether the stream is open, and nothing has come that nobody asked for: a goodbye, most likely."""
    transport, protocol = raw._transport, raw._proto  # noqa: SLF001 - nothing else tells
    if raw._stream_broken or protocol.length != protocol.pos:  # noqa: SLF001
        return False
    # the loop may not have come round to read it yet; TLS has things of its own to say
    return transport.get_extra_info("ssl_object") is not None or is_silent(transport.get_extra_info("socket"))


class AsyncLines:
    """The lines of one event loop, a few at most; whoever comes later waits for one."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MOST)
        self._idle: list[AsyncLine] = []

    async def take(self) -> AsyncLine | None:
        """An idle line that still works; None where a new one may be made."""
        await self._room.acquire()
        try:
            while self._idle:
                line = self._idle.pop()
                if await line.works():
                    return line
                line.drop()
        except BaseException:
            self._room.release()
            raise
        return None

    def put_back(self, line: AsyncLine | None) -> None:
        """Keep it for the next caller, unless an answer may still arrive on it. None: it could not be made."""
        self._room.release()
        if line is None:
            return
        if line.usable:
            line.rest()
            self._idle.append(line)
        else:
            line.drop()

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().drop()
