"""The hint that makes it fast: one datagram socket per worker in a directory beside the file.

Whoever leaves jobs ready sends an empty datagram to every worker of those queues: to one alone would be too few, for
it may be busy and find the hint only when it next waits. A hint carries no job and may be lost. The truth is `pragma
data_version`, asked once a second. Where there are no Unix sockets (Windows), that is all there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import socket
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

POLL_S = 1.0
LONGEST_PATH = 100  # an address holds 108 bytes on Linux and 104 on macOS, the final NUL included
LONGEST_NAME = 48
QUEUES_IN_NAME = 6
SETTLED_NS = 50_000_000  # a directory's time has grains of some milliseconds: a listing that recent may miss a socket
ANY = "any"


def place(path: Path) -> Path:
    """Where the sockets of a database live: beside the file, or under the temporary directory when that is too long.

    Derived from the file's real path, so that all its users agree without asking.
    """
    real = os.path.realpath(path)
    beside = f"{real}-wake"
    if len(os.fsencode(beside)) + 1 + LONGEST_NAME <= LONGEST_PATH:
        return Path(beside)
    name = hashlib.blake2b(os.fsencode(real), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"headrace-{os.getuid()}-{name}"


def tag(queue: str) -> str:
    """A queue in four hexadecimal digits. Two queues with one tag only cost a needless look."""
    return f"{zlib.crc32(queue.encode('utf-8', 'surrogatepass')) & 0xFFFF:04x}"


def sockets_exist() -> bool:
    """Whether this platform has Unix datagram sockets."""
    return hasattr(socket, "AF_UNIX") and hasattr(os, "getuid")


class Bell:
    """Rings workers. Owned by one lane, whose lock it is used under."""

    def __init__(self, path: Path) -> None:
        self._directory = place(path) if sockets_exist() else None
        self._socket: socket.socket | None = None
        self._listed_at = 0
        self._listed: list[tuple[str, frozenset[str]]] = []

    def ring(self, queues: Iterable[str] | None) -> None:
        """Wake all workers of these queues (None: of any). Never waits, never fails."""
        if self._directory is None or not (listeners := self._listeners(self._directory)):
            return
        tags = None if queues is None else {ANY, *map(tag, queues)}
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.settimeout(0)
        for address, heard in listeners:
            if tags is None or not tags.isdisjoint(heard):
                self._send(self._socket, address)

    def _send(self, sender: socket.socket, address: str) -> None:
        try:
            sender.sendto(b"", address)
        except ConnectionRefusedError:
            # its worker was killed: nobody listens there any more
            with contextlib.suppress(OSError):
                Path(address).unlink()
        except OSError:
            # full: it has been rung often enough; or gone since we listed it, or another user's
            return

    def _listeners(self, directory: Path) -> list[tuple[str, frozenset[str]]]:
        """Addresses and tags, listed anew when the directory has changed: one stat per ring, at rest."""
        try:
            changed = directory.stat().st_mtime_ns
        except OSError:
            return []
        if changed != self._listed_at:
            with contextlib.suppress(OSError):
                self._listed = [(str(each), frozenset(each.name.split("-")[2:])) for each in directory.iterdir()]
                self._listed_at = changed if time.time_ns() - changed > SETTLED_NS else 0
        return self._listed

    def close(self) -> None:
        """Close the sending end."""
        sender, self._socket = self._socket, None
        if sender is not None:
            sender.close()


class SQLiteWakeup:
    """One worker's ear: its socket, and the file's version once a second."""

    def __init__(self, path: Path, queues: Sequence[str], version: Callable[[], Awaitable[int]]) -> None:
        """`version` asks the file for a number that changes with every commit."""
        self._version = version
        self._seen: int | None = None
        self._directory = place(path) if sockets_exist() else None
        self._address = Path()
        self._socket = self._bind(queues)

    def _bind(self, queues: Sequence[str]) -> socket.socket | None:
        """None where no socket can be made: then the file alone is asked."""
        if self._directory is None:
            return None
        tags = sorted(set(map(tag, queues)))
        heard = "-".join(tags) if 0 < len(tags) <= QUEUES_IN_NAME else ANY
        # a process has the same number in several containers that share a volume
        self._address = self._directory / f"{os.getpid()}-{secrets.token_hex(4)}-{heard}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.settimeout(0)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if self._directory.stat().st_uid != os.getuid():  # somebody else's: its owner could listen in, or block us
                raise PermissionError(self._directory)
            listener.bind(str(self._address))
        except OSError:
            listener.close()
            return None
        return listener

    async def wait(self, timeout: float) -> bool:
        """Until rung or until the file has changed; False after `timeout` seconds without either."""
        until = time.monotonic() + timeout
        while True:
            left = until - time.monotonic()
            if await self._rung(min(POLL_S, max(0.0, left))) or await self._changed():
                return True
            if left <= POLL_S:
                return False

    async def _rung(self, seconds: float) -> bool:
        if self._socket is None:
            await asyncio.sleep(seconds)
            return False
        if self._drain(self._socket):
            return True
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        number = self._socket.fileno()
        try:
            loop.add_reader(number, rung.set)
        except NotImplementedError:
            await asyncio.sleep(seconds)
            return False
        try:
            async with asyncio.timeout(seconds):
                await rung.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(number)
        return self._drain(self._socket)

    @staticmethod
    def _drain(listener: socket.socket) -> bool:
        """Take all hints that have come: one look at the store answers them all."""
        rung = False
        with contextlib.suppress(BlockingIOError):
            while True:
                listener.recv(1)
                rung = True
        return rung

    async def _changed(self) -> bool:
        version = await self._version()
        before, self._seen = self._seen, version
        return before is not None and before != version

    async def aclose(self) -> None:
        """Take the socket away, and the directory with the last one."""
        listener, self._socket = self._socket, None
        if listener is None or self._directory is None:
            return
        listener.close()
        with contextlib.suppress(OSError):
            self._address.unlink()
            self._directory.rmdir()
