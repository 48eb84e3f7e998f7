"""Jobs that come back from being parked are as old as before: since when may the oldest of a queue have been ready?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.operations import QueueView


class _Seen(msgspec.Struct, frozen=True):
    parked: int
    oldest_us: int | None
    first_us: int  # when this oldest one was seen first
    back_us: int | None  # when parked jobs were seen to have become fewer


class Returning:
    """Remembers the last look of one who looks again and again."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(self, queues: Sequence[QueueView], now_us: int) -> dict[str, int]:
        """For queues whose parked jobs come back: the moment from which the waiting of the oldest ready one counts.

        One that was seen ready before has been so since, whatever has come back meanwhile. Whoever has not looked
        before does not know: there, what is parked counts as coming back just now.
        """
        self._seen = {view.name: _seen(view, self._seen.get(view.name), now_us) for view in queues}
        return {name: min(seen.back_us, seen.first_us) for name, seen in self._seen.items() if seen.back_us is not None}


def _seen(view: QueueView, before: _Seen | None, now_us: int) -> _Seen:
    oldest_us = view.oldest_ready_us
    if before is None:
        return _Seen(view.parked, oldest_us, now_us, now_us if view.parked else None)
    first_us = before.first_us if oldest_us == before.oldest_us else now_us
    return _Seen(view.parked, oldest_us, first_us, now_us if view.parked < before.parked else before.back_us)
