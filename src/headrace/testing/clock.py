"""A clock that moves only when told to."""

from __future__ import annotations

import threading

MICROSECONDS = 1_000_000
START_US = 1_700_000_000 * MICROSECONDS


class VirtualClock:
    """Wall time in microseconds since the epoch and monotonic time in seconds, both moved by hand. Thread-safe.

    Hand the clock itself to a store as `now`.
    """

    def __init__(self, start_us: int = START_US) -> None:
        """Start at `start_us` microseconds since the epoch (default: November 2023)."""
        self._lock = threading.Lock()
        self._wall_us = start_us
        self._elapsed_us = 0

    def __call__(self) -> int:
        """Wall time in microseconds since the epoch."""
        return self._wall_us

    def monotonic(self) -> float:
        """Seconds since this clock was made; no `jump` changes them."""
        return self._elapsed_us / MICROSECONDS

    def advance(self, seconds: float) -> int:
        """Let `seconds` pass. Returns the new wall time in microseconds."""
        return self.advance_us(round(seconds * MICROSECONDS))

    def advance_us(self, micros: int) -> int:
        """Let `micros` microseconds pass. Returns the new wall time.

        Raises:
            ValueError: `micros` is negative: time only passes forwards, see `jump`.
        """
        if micros < 0:
            raise ValueError(
                f"time cannot pass backwards ({micros} microseconds); use jump() to set the wall clock back"
            )
        with self._lock:
            self._wall_us += micros
            self._elapsed_us += micros
            return self._wall_us

    def jump(self, seconds: float) -> int:
        """Set the wall clock forwards or back, as an administrator does, without time passing."""
        with self._lock:
            self._wall_us += round(seconds * MICROSECONDS)
            return self._wall_us
