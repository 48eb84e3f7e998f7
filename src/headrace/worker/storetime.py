"""The store's clock as a worker sees it between two answers."""

from __future__ import annotations

from collections.abc import Callable

DRIFT_S = 1.0  # how far the store's clock and ours may part between two answers


class StoreTime:
    """The last moment the store named, advanced by a monotonic clock. The wall clock of this machine plays no part."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._store_us: int | None = None
        self._learnt_at = 0.0

    def learn(self, store_us: int) -> bool:
        """Take note of the store's now; False when its clock has jumped since the last time, against ours."""
        drift_us = abs(store_us - self.now_us()) if self._store_us is not None else 0
        self._store_us, self._learnt_at = store_us, self._monotonic()
        return drift_us < DRIFT_S * 1_000_000

    @property
    def learnt(self) -> tuple[int, float]:
        """What the store last named, and when that was."""
        return self._store_us or 0, self._learnt_at

    def inherit(self, store_us: int, learnt_at: float) -> None:
        """Begin with what another process of this machine has learnt, so that a jump since then is noticed."""
        self._store_us, self._learnt_at = store_us, learnt_at

    def now_us(self) -> int:
        """Microseconds since the epoch on the store's clock; 0 before the first answer."""
        if self._store_us is None:
            return 0
        return self._store_us + int((self._monotonic() - self._learnt_at) * 1_000_000)
