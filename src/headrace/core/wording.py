"""Words for people: numbers with what they count."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 job`, `1,200 jobs`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
