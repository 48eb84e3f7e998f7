"""Texts as the bytes that the tables keep, and lists in steps that fit one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.errors import InvalidArguments

V = TypeVar("V")

STEP = 500  # values of one list: MariaDB plans lists of 1,000 and more in another way
ROWS = 1_000  # rows of one statement
STEP_BYTES = 2_000_000  # of one statement's bodies; they travel as hexadecimal digits, and a packet may hold 16 MB

LONGEST = {"id": 800, "queue": 255, "task": 1000, "unique key": 2000, "worker": 255}  # bytes; the columns' widths
LONGEST |= {"once scope": 1000, "once key": 2000, "owner": 800, "register": 300}
LONGEST_REASON = 1000
MOST_TOKEN = 2**63 - 1


def raw(text: str) -> bytes:
    """The bytes of a text; those that another program wrote and that are no UTF-8 go back as they came."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def text(value: Any) -> str:
    """The text of a column."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def is_text(value: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def raised(token: int, now: int) -> int:
    """The next token of a job. One that another program set to the end of the column stays there."""
    return min(max(token + 1, now), MOST_TOKEN)


def fitting(name: str, value: str) -> bytes:
    """The bytes of a text that is to be stored.

    Raises:
        InvalidArguments: it is too long for its column, or no text that UTF-8 can carry.
    """
    try:
        found = value.encode()
    except UnicodeEncodeError:
        raise InvalidArguments(f"the {name} {value[:80]!r} holds half of a surrogate pair: choose another") from None
    if len(found) > LONGEST[name]:
        raise InvalidArguments(
            f"the {name} {value[:80]!r}... has {len(found)} bytes; on MySQL it may have {LONGEST[name]}"
        )
    return found


def shortened(reason: str) -> bytes:
    """A reason that fits its column: a long one must not keep a job from ending."""
    return reason.encode("utf-8", "replace")[:LONGEST_REASON].decode("utf-8", "ignore").encode()


def held(queue: bytes, key: bytes) -> bytes:
    """A unique key within its queue, as one value."""
    return queue + b"\0" + key


def listed(texts: Sequence[str]) -> str:
    """A list as one parameter for `json_table`, in hexadecimal digits so that any bytes go through."""
    return msgspec.json.encode([raw(each).hex() for each in texts]).decode()


def steps(values: Sequence[V]) -> Iterator[Sequence[V]]:
    """`values` a few hundred at a time."""
    return (values[start : start + STEP] for start in range(0, len(values), STEP))


def light_steps(rows: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Rows whose last field is a body or none, as many at a time as fit one statement."""
    some: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        if some and (len(some) == ROWS or size + len(row[-1] or b"") > STEP_BYTES):
            yield some
            some, size = [], 0
        some.append(row)
        size += len(row[-1] or b"")
    if some:
        yield some
