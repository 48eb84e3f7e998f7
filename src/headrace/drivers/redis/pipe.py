"""The connection of asynchronous callers: all of them share it, requests go out together, answers come in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import hiredis

from headrace.drivers.redis.address import Address
from headrace.drivers.redis.exchange import Command, NoScript, Scripts, error_in
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Step

_NOTHING = object()


class Pipe(asyncio.Protocol):
    """One connection of one event loop. A caller that goes away leaves its place in the line of answers."""

    def __init__(self, address: Address, scripts: Scripts, timeout: float) -> None:
        self._address = address
        self._scripts = scripts
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._outgoing: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()
        self._fault: StoreUnavailable | None = None  # why it is closed
        self.open = True

    @classmethod
    async def connect(cls, address: Address, scripts: Scripts, timeout: float | None = None) -> Pipe:
        """Open one and introduce ourselves.

        Raises:
            StoreUnavailable: nobody answers.
            StoreMisconfigured: we are not let in.
        """
        pipe = cls(address, scripts, timeout or address.socket_timeout)
        try:
            async with asyncio.timeout(address.connect_timeout):
                await pipe._open()
            await asyncio.gather(*[pipe.call(command) for command in address.greeting()])
        except (OSError, TimeoutError) as error:
            pipe.abort()
            raise StoreUnavailable(f"no connection to {address}: {str(error) or 'no answer'}") from error
        except BaseException:
            pipe.abort()
            raise
        return pipe

    async def _open(self) -> None:
        context = self._address.tls_context()
        name = self._address.host if context else None
        if self._address.path:
            await self._loop.create_unix_connection(lambda: self, self._address.path)
        else:
            host, port = self._address.host, self._address.port
            await self._loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=name)

    async def execute(self, step: Step) -> Any:
        """Carry out one step."""
        try:
            return await self.call(self._scripts.command(step))
        except NoScript:
            return await self.call(self._scripts.whole(step))

    def call(self, command: Command) -> asyncio.Future[Any]:
        """Send a command; the future is its answer. What is sent while answers are awaited goes out together."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self.open or self._transport is None:
            reason = f": {self._fault}" if self._fault else ""
            future.set_exception(StoreUnavailable(f"the connection to {self._address} is closed{reason}"))
            return future
        packed = hiredis.pack_command(command)
        now = self._loop.time()
        if not self._waiting:
            self._transport.write(packed)  # nobody to wait for
        else:
            if not self._outgoing:
                self._loop.call_soon(self._flush)
            self._outgoing.append(packed)
        self._waiting.append((future, now))
        if self._watch is None:
            self._watch = self._loop.call_at(now + self._timeout, self._look)
        return future

    def _flush(self) -> None:
        if self._transport is not None and self._outgoing:
            self._transport.write(b"".join(self._outgoing))
        self._outgoing.clear()

    def _look(self) -> None:
        """Give the connection up when the oldest request has waited too long."""
        self._watch = None
        if not self._waiting:
            return
        until = self._waiting[0][1] + self._timeout
        if until > self._loop.time():
            self._watch = self._loop.call_at(until, self._look)
        else:
            self._lose(StoreUnavailable(f"no answer from {self._address} within {self._timeout:g} s"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        # uvloop's transports are no subclass of asyncio.Transport
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop: hand out the answers that are complete."""
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _NOTHING:
                if not self._waiting and (refusal := error_in(reply)):  # it shows us the door: too many clients
                    self._lose(StoreUnavailable(str(refusal)))
                    return
                future, _ = self._waiting.popleft()
                if future.done():  # its caller is gone: the answer is read and dropped, the next ones keep their order
                    continue
                refusal = error_in(reply)
                if refusal is None:
                    future.set_result(reply)
                    continue
                future.set_exception(refusal)
                if isinstance(refusal, StoreUnavailable):  # it was demoted, or is loading: look for another one
                    self._lose(refusal)
                    return
        except (hiredis.ProtocolError, IndexError) as error:
            self._lose(StoreUnavailable(f"{self._address} does not speak as Redis does: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._lose(StoreUnavailable(f"the connection to {self._address} was lost: {exc or 'the server closed it'}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _lose(self, error: StoreUnavailable) -> None:
        """Everybody who waits gets the error: whether their requests were carried out is unknown."""
        self.open = False
        self._fault = self._fault or error
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._outgoing.clear()
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(StoreUnavailable(str(error)))
        if self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        """Close at once. May be called twice, and from a loop that is over."""
        self._lose(StoreUnavailable("the connection was closed"))

    async def aclose(self) -> None:
        """Close, and wait until it is."""
        self.abort()
        if self._transport is not None:
            await self._closed
