"""The run log: every execution of a job appends 16 bytes to it (see peers/peerlib.py)."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass
from pathlib import Path

ENTRY = struct.Struct("<IId")
START, DONE = 0, 1
LOOK_S = 0.02


@dataclass(frozen=True)
class Entry:
    """A job's number, what happened, and when (monotonic seconds)."""

    index: int
    event: int
    at: float


class Record:
    """One file, empty when made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)

    def __len__(self) -> int:
        return self.path.stat().st_size // ENTRY.size if self.path.exists() else 0

    def read(self) -> list[Entry]:
        """All entries so far."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        return [Entry(*fields) for fields in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])]

    def wait(self, count: int, seconds: float, stall: float = 30.0) -> bool:
        """Wait for `count` entries; give up after `seconds`, or after `stall` without progress."""
        end = time.monotonic() + seconds
        seen, moved = -1, time.monotonic()
        while (now := len(self)) < count:
            if now != seen:
                seen, moved = now, time.monotonic()
            if time.monotonic() > end or time.monotonic() - moved > stall:
                return False
            time.sleep(LOOK_S)
        return True

    def ended(self) -> set[int]:
        """Jobs that ran to their end."""
        return {entry.index for entry in self.read() if entry.event == DONE}

    def interrupted(self) -> set[int]:
        """Jobs that began and have not ended."""
        return {entry.index for entry in self.read() if entry.event == START} - self.ended()
