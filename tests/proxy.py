"""A TCP proxy that misbehaves on request. Runs in a thread of its own, so plain and async tests use it alike.

The faults of a network, each by name: latency (late), cut (reset), refuse (nobody listens), swallow (half-open: bytes
vanish, nothing is closed), drop_request (it does not arrive), drop_reply and drop_answer (it arrives, the answer is
lost: the caller cannot know which of the two it was).
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

T = TypeVar("T")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close sends RST instead of FIN
_ANSWER_WITHIN = 10.0


@dataclass(eq=False)
class _Link:
    """One client's connection and the one made for it to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    doomed: bool = False  # the next answer is to be lost

    def reset(self) -> None:
        self.closed.set()
        for writer in (self.client, self.server):
            if (sock := writer.get_extra_info("socket")) and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


@dataclass(eq=False)
class _Loss:
    """A request whose answer is to be lost, or which is to be lost itself; or an answer."""

    containing: bytes
    skip: int = 0  # others like it that are let through first
    arrives: bool = True


def _struck(losses: list[_Loss], data: bytes) -> _Loss | None:
    """The loss that is due with these bytes, which is over then."""
    for loss in losses:
        if loss.containing in data:
            if not loss.skip:
                losses.remove(loss)
                return loss
            loss.skip -= 1
    return None


class Proxy:
    """Stands before the server of `url`. Every method may be called from any thread, and again."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._losses: list[_Loss] = []
        self._unheard: list[_Loss] = []
        self._swallowing = False
        self.latency = 0.0  # seconds, added to every chunk in both directions
        self.port = 0
        self.accepted = 0  # connections so far
        self.dropped = 0  # requests and answers lost so far

    @property
    def url(self) -> str:
        """The address through the proxy; user, path and query are those of the server's URL."""
        credentials, at, _ = self._target.netloc.rpartition("@")
        return urlunsplit(self._target._replace(netloc=f"{credentials}{at}127.0.0.1:{self.port}"))

    def start(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def stop(self) -> None:
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._call(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Reset every connection. New ones are welcome."""
        self._call(self._cut())

    def refuse(self, on: bool = True) -> None:
        """Stop listening (and reset what is open), or listen again on the same port."""
        self._call(self._unlisten() if on else self._listen())

    def swallow(self, on: bool = True) -> None:
        """Half-open: what either side sends vanishes from now on. Bytes that vanished do not come back."""
        self._swallowing = on

    def drop_reply(self, containing: bytes = b"", times: int = 1, skip: int = 0) -> None:
        """Deliver the next `times` requests that hold `containing`, and reset each connection before its answer.

        `skip`: how many such requests are let through before.
        """
        self._losses += [_Loss(containing, skip) for _ in range(times)]

    def drop_request(self, containing: bytes = b"", skip: int = 0) -> None:
        """Reset the connection of the next request that holds `containing`, of which nothing arrives."""
        self._losses.append(_Loss(containing, skip, arrives=False))

    def drop_answer(self, containing: bytes, skip: int = 0) -> None:
        """Reset the connection instead of delivering the next answer that holds `containing`."""
        self._unheard.append(_Loss(containing, skip))

    def forgive(self) -> bool:
        """Lose nothing any more; answers whether there was something left to be lost."""
        left = [*self._losses, *self._unheard]
        self._losses, self._unheard = [], []
        return bool(left)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_ANSWER_WITHIN)

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _unlisten(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._cut()

    async def _cut(self) -> None:
        for link in tuple(self._links):
            link.reset()

    async def _shut(self) -> None:
        await self._unlisten()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, back)
        self._links.add(link)
        try:
            await asyncio.gather(self._requests(reader, link), self._answers(there, link))
        finally:
            self._links.discard(link)
            link.closed.set()
            for end in (writer, back):
                end.close()

    async def _requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while data := await self._read(reader, link):
            if (loss := _struck(self._losses, data)) is not None:
                if not loss.arrives:
                    self.dropped += 1
                    link.reset()
                    return
                link.doomed = True
            link.server.write(data)
        with contextlib.suppress(OSError):
            link.server.write_eof()

    async def _answers(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while data := await self._read(reader, link):
            if link.doomed or _struck(self._unheard, data) is not None:
                self.dropped += 1
                await self._lose(reader, link)
                return
            link.client.write(data)
        link.client.close()

    async def _lose(self, answers: asyncio.StreamReader, link: _Link) -> None:
        """Reset a connection when the server has carried out all it was asked for.

        Statements that travel together are answered one by one: the first answer does not tell that all were carried
        out. The server hears that nothing more will come, finishes, and hangs up.
        """
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ANSWER_WITHIN):
                link.server.write_eof()
                while await answers.read(65536):
                    pass
        link.reset()

    async def _read(self, reader: asyncio.StreamReader, link: _Link) -> bytes:
        """The next chunk that is to go on; empty when the connection is over."""
        while not link.closed.is_set():
            try:
                data = await reader.read(65536)
            except OSError:
                return b""
            if self.latency:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(link.closed.wait(), self.latency)
            if not data or not self._swallowing:
                return b"" if link.closed.is_set() else data
        return b""
