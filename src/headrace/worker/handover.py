"""What a worker that recycles leaves to the process image that follows it.

A worker rescues others only after clean heartbeats, one heartbeat apart (3b.4). One that starts itself anew every few
seconds, say after ten jobs, would never get that far; so its successor carries its row of beats on. The two share a
machine and its monotonic clock, and whatever is too old by the time it is read counts for nothing.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import msgspec

VARIABLE = "HEADRACE_HANDOVER"


class Handover(msgspec.Struct, frozen=True):
    """Clean beats and the store's clock, as the predecessor knew them. Moments are of the monotonic clock."""

    clean_beats: int
    clean_at: float  # when the last of them that counts was sent
    store_us: int
    learnt_at: float  # when the store's clock showed that


def leave(handover: Handover, environment: MutableMapping[str, str]) -> None:
    """For the next image of this process."""
    environment[VARIABLE] = msgspec.json.encode(handover).decode()


def take(environment: MutableMapping[str, str]) -> Handover | None:
    """What the image before this one left, if there was one. Programs that this one starts must not find it."""
    text = environment.pop(VARIABLE, None)
    try:
        return None if text is None else msgspec.json.decode(text, type=Handover)
    except msgspec.DecodeError:
        return None
