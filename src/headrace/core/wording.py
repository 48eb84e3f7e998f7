"""Words for people: numbers with what they count, and what they may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, what: str) -> str:
    """`1 job`, `1,200 jobs`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def near(name: str, known: Iterable[str]) -> list[str]:
    """Those of `known` that somebody may have meant who wrote `name`: best first, at most three."""
    import difflib  # noqa: PLC0415 - only where something is wrong

    names = list(known)
    return [one for one in names if one.endswith(f".{name}")] or difflib.get_close_matches(name, names)
