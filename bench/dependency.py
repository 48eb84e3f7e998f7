"""A dependency that fails from some call on: it answers datagrams, and notes by its own clock when each one came."""

from __future__ import annotations

import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

TIMESTAMPS = 35  # SO_TIMESTAMPNS: the kernel says when a datagram came, however late we look at it
MOMENT = struct.Struct("@ll")  # seconds and nanoseconds since 1970
LOOK_S = 0.1  # between two looks whether it is over


class Dependency:
    """Answers on a loopback port, in a thread of its own, for as long as the block.

    A datagram is a call, answered "ok" or "no"; one that begins with "=" is a worker's word that it has heard of a
    transition of the circuit. All times are seconds since 1970.
    """

    def __init__(self, *, fails_from: int) -> None:
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.setsockopt(socket.SOL_SOCKET, TIMESTAMPS, 1)
        self._line.bind(("127.0.0.1", 0))
        self._line.settimeout(LOOK_S)
        self._fails_from = fails_from
        self._thread = threading.Thread(target=self._serve)
        self._over = False
        self.port = int(self._line.getsockname()[1])
        self.calls: list[float] = []
        self.heard: list[tuple[float, str]] = []  # when, and to which state

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._thread.join()
        self._line.close()

    def _serve(self) -> None:
        while not self._over:
            try:
                said, notes, _, caller = self._line.recvmsg(64, 64)
            except TimeoutError:
                continue
            came = _came(notes)
            if said.startswith(b"="):
                self.heard.append((came, said[1:].decode()))
            else:
                self.calls.append(came)
                self._line.sendto(b"ok" if len(self.calls) < self._fails_from else b"no", caller)


def _came(notes: list[tuple[int, int, bytes]]) -> float:
    for level, kind, data in notes:
        if (level, kind) == (socket.SOL_SOCKET, TIMESTAMPS):
            seconds, nanoseconds = MOMENT.unpack(data)
            return float(seconds + nanoseconds / 1e9)
    return time.time()
