"""The plan that puts aside what another program wrote under an id that is no text: no worker could be given it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from headrace.core import trail
from headrace.stores.mysql.text import LONGEST, is_text
from headrace.stores.plan import Plan, Statement

Row = tuple[Any, ...]


def put_aside(rows: Sequence[Row], now: int) -> Plan[list[Row]]:
    """Move those that cannot be read to the failed jobs; the others are left. The id comes first, the trail fifth."""
    good = [row for row in rows if is_text(row[0])]
    for id, _, _, _, raw, *_ in (row for row in rows if not is_text(row[0])):
        before = trail.decode(raw)
        message = "another program wrote this row, and no worker can be given it: what is wrong is its id"
        mishap = trail.Mishap("error", now, before.attempts + 1, "", type="UnreadableRow", message=message)
        after = trail.encode(before.with_mishap(mishap))
        yield Statement("mend.put_aside", {"id": id, "name": _readable(id), "now": now, "trail": after})
        yield Statement("settle.delete", {"ids": [id]})
    return good


def _readable(id: bytes) -> bytes:
    """A name of its own: the bytes that are no text are written out, and a few digits tell it from all others."""
    name = id.decode(errors="backslashreplace").encode()
    return name[: LONGEST["id"] - 16].decode(errors="ignore").encode() + b"+" + sha256(id).hexdigest()[:12].encode()
