"""The connection of synchronous callers: one request, one answer, in the caller's thread."""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

from headrace.drivers.redis.address import Address
from headrace.drivers.redis.exchange import Command, NoScript, Scripts, error_in
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Step

_NOTHING = object()
_BUFFER = 65_536
_IDLE = 32  # connections kept when nobody uses them


def _news_of(connection: socket.socket) -> Callable[[], bool]:
    """Tells whether there is something to read. Windows has no `poll`; `select` knows no descriptor above 1023."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return lambda: bool(poll.poll(0))


class Line:
    """One connection. Not shared: a thread takes it, uses it, puts it back."""

    def __init__(self, address: Address, scripts: Scripts) -> None:
        self._address = address
        self._scripts = scripts
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._buffer = bytearray(_BUFFER)
        self._socket = address.connect()
        self._plain = not isinstance(self._socket, ssl.SSLSocket)
        self._has_news = _news_of(self._socket)
        self.midway = False  # a request is out and its answer not read: nobody else may use this line
        if self._plain and sys.platform != "win32":  # where such a timeout is written in another way
            self._let_kernel_time()
        try:
            for command in address.greeting():
                self.call(command)
        except BaseException:
            self.close()
            raise

    def _let_kernel_time(self) -> None:
        """The kernel's own timeouts spare a poll before every send and receive."""
        seconds, rest = divmod(self._address.socket_timeout, 1)
        interval = struct.pack("ll", int(seconds), int(rest * 1_000_000))
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)

    def execute(self, step: Step) -> Any:
        """Carry out one step."""
        try:
            return self.call(self._scripts.command(step))
        except NoScript:
            return self.call(self._scripts.whole(step))

    def call(self, command: Command) -> Any:
        """Send a command and wait for its answer.

        Raises:
            StoreUnavailable: there was none within `socket_timeout`; the line is of no use any more.
        """
        self.midway = True
        try:
            self._socket.sendall(hiredis.pack_command(command))
            reply = self._reply()
        except TimeoutError as error:
            raise self._no_answer(error) from error
        except BlockingIOError as error:  # how the kernel's timeout shows
            raise self._no_answer(error) from error
        except (OSError, EOFError, hiredis.ProtocolError) as error:
            raise StoreUnavailable(f"the connection to {self._address} was lost: {error}") from error
        refusal = error_in(reply)
        # A server that was demoted, or is loading, says so: the next caller had better look for another one.
        self.midway = isinstance(refusal, StoreUnavailable)
        if refusal is not None:
            raise refusal
        return reply

    def _no_answer(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"no answer from {self._address} within {self._address.socket_timeout:g} s")

    def _reply(self) -> Any:
        while (reply := self._reader.gets()) is _NOTHING:
            size = self._socket.recv_into(self._buffer)
            if not size:
                raise EOFError("the server closed it")
            self._reader.feed(self._buffer, 0, size)  # type: ignore[arg-type]  # any buffer will do
        return reply

    def usable(self) -> bool:
        """Whether nothing has happened to it while it lay idle: a closed one can be read from."""
        if self.midway or self._socket.fileno() < 0:
            return False
        if not self._plain:  # TLS has things of its own to say; an error will tell
            return True
        return not self._has_news()

    def close(self) -> None:
        """Close the socket. May be called twice."""
        self._socket.close()


class Lines:
    """Idle lines of this process, the one used last on top. A fork starts with none (B121)."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: deque[Line] = deque()

    def take(self) -> Line | None:
        """An idle line that still works, if there is one."""
        if os.getpid() != self._process:
            self._after_fork()
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if line.usable():
                return line
            line.close()
        return None

    def put_back(self, line: Line) -> None:
        """Keep it for the next caller, unless an answer may still arrive on it."""
        if line.midway or len(self._idle) >= _IDLE:
            line.close()
        else:
            self._idle.append(line)

    def close(self) -> None:
        """Close what is idle."""
        while (line := self.take()) is not None:
            line.close()

    def _after_fork(self) -> None:
        inherited, self._idle, self._process = self._idle, deque(), os.getpid()
        for line in inherited:  # closes our copies; the parent goes on with its own
            line.close()
