"""Job ids: UUID version 7, so that they sort by the time they were made."""

from __future__ import annotations


def uuid7(unix_us: int, rng_bits: int) -> str:
    """The UUIDv7 of a moment (microseconds since the epoch) and 62 random bits, as 36 characters.

    The microseconds within the millisecond fill the 12 bits of `rand_a`, so ids of different microseconds sort
    by time. Source: RFC 9562, section 5.7 and method 3 of section 6.2.
    """
    ms, us = divmod(unix_us, 1000)
    high = ms << 16 | 0x7000 | us * 4096 // 1000
    low = 1 << 63 | rng_bits & (1 << 62) - 1
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
