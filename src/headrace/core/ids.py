"""Job ids: UUID version 7, so that they sort by the time they were made."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

MOST = 200  # characters of an id
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")

DIGITS = 16  # of the variant and `rand_b`
_FORM = "%08x-%04x%s%04x-%012x"  # a third quicker than an f-string
_RAND_A = tuple(f"-7{us * 4096 // 1000:03x}-" for us in range(1000))  # the version, and the microseconds in 12 bits


def uuid7(unix_us: int, rng_bits: int) -> str:
    """The UUIDv7 of a moment (microseconds since the epoch) and 62 random bits, as 36 characters.

    The microseconds within the millisecond fill the 12 bits of `rand_a`, so ids of different microseconds sort
    by time. Source: RFC 9562, section 5.7 and method 3 of section 6.2.
    """
    ms, us = divmod(unix_us, 1000)
    variant = 0x8000 | rng_bits >> 48 & 0x3FFF
    return _FORM % (ms >> 16, ms & 0xFFFF, _RAND_A[us], variant, rng_bits & 0xFFFF_FFFF_FFFF)


def uuid7s(unix_us: int, count: int, rng_bits: int) -> list[str]:
    """UUIDv7s of this microsecond and those after it, at less than half the price; `rng_bits` has 64 for each."""
    random, variant = _masks(count)
    rand_b = f"{rng_bits & random | variant:0{DIGITS * count}x}"
    ids: list[str] = []
    head, head_ms = "", -1
    for place in range(count):
        ms, us = divmod(unix_us + place, 1000)
        if ms != head_ms:
            head, head_ms = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}", ms
        start = DIGITS * place
        ids.append(f"{head}{_RAND_A[us]}{rand_b[start : start + 4]}-{rand_b[start + 4 : start + DIGITS]}")
    return ids


@lru_cache(maxsize=4)
def _masks(count: int) -> tuple[int, int]:
    """Of `count` times 64 bits: those that are random, and the two of the variant that are set."""
    return int("3fffffffffffffff" * count, 16), int("8000000000000000" * count, 16)


def following(id: str, ending: str, moment_us: int) -> str:
    """The id of a job that follows from another one: that id and `ending`, or a digest in place of what is too long.

    An id of ours is never used again. One that somebody has chosen may be, once its tombstone is over, while what
    followed from the one before is still kept: there `moment_us`, of its enqueue, tells the two apart.
    """
    return with_ending(id, ending if _UUID7.match(id) else f"{ending}-{moment_us}")


def with_ending(id: str, ending: str) -> str:
    """That id and `ending`, or a digest in place of what is too long."""
    room = MOST - len(ending)
    if len(id) > room:
        digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        id = f"{id[: room - len(digest) - 1]}~{digest}"
    return id + ending
