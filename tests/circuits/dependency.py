"""A server on a socket that says yes, or breaks, and keeps account of its calls."""

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self


class Broken(Exception):
    """The dependency said no."""


class Dependency:
    """`works`: what it answers. `calls`: (seconds of the monotonic clock, whether it was good) of each call's begin."""

    def __init__(self) -> None:
        self.works = True
        self.calls: list[tuple[float, bool]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.free = asyncio.Event()  # an answer waits for it
        self.free.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free.set()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        works = self.works
        self.calls.append((time.monotonic(), works))
        try:
            await self.free.wait()
            writer.write(b"250 ok\n" if works else b"421 not now\n")
            with suppress(ConnectionError):
                await writer.drain()
        finally:
            self.at_once -= 1
            writer.close()

    async def call(self) -> None:
        """Raises `Broken` where the answer is no."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(b"hello\n")
            answer = await reader.readline()
        finally:
            writer.close()
        if not answer.startswith(b"250"):
            raise Broken(answer.decode())
