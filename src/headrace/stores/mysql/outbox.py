"""Plans of the outbox and the inbox. A relay locks the rows it looks at, and passes over those that others look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.core import outbox as ops
from headrace.errors import InvalidArguments
from headrace.stores.mysql.text import light_steps, raw, steps, text
from headrace.stores.plan import Plan, Statement

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the columns have no time zone; they are in UTC


def _moment(unix_us: int) -> str:
    """As DATETIME takes it."""
    return (EPOCH + timedelta(microseconds=unix_us)).isoformat(timespec="microseconds")


def _utf8(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidArguments(f"{value[:80]!r} holds half of a surrogate pair: choose another") from None


def add(op: ops.AddEvents, now: int) -> Plan[None]:
    """Write events in their order."""
    status = "cdc" if op.cdc else "pending"
    rows = [
        (
            *(event.id, _utf8(event.event_type), _utf8(event.aggregate_type), _utf8(event.aggregate_id)),
            *(status, _moment(now), now, _utf8(event.headers), _utf8(event.payload)),
        )
        for event in op.events
    ]
    for some in light_steps(rows):
        ordered = [(*row[:4], row[8], row[7], *row[4:7]) for row in some]
        yield Statement("outbox.add", many=ordered)


def claim(op: ops.ClaimEvents, now: int) -> Plan[ops.ClaimedEvents]:
    """Look at the first rows whose turn it is; hold the heads among them, and put off those that are blocked."""
    if (yield Statement("outbox.is_cdc"))[0][0]:
        return ops.ClaimedEvents(now, [], more=False, next_due_us=None, cdc=True)
    due: list[tuple[int, int, int, int]] = yield Statement("outbox.due", {"now": now, "limit": op.limit})
    heads = [(seq, bool(followed)) for seq, _, blocked, followed in due if not blocked]
    events: list[ops.StoredEvent] = []
    if heads:
        rows = yield from _rows(heads, max(1, op.limit // len(heads)))
        events, held = ops.reachable(rows, [seq for seq, _ in heads], op.owner, now, op.limit)
        for some in steps(held):
            yield Statement("outbox.hold", {"owner": raw(op.owner), "until_us": now + op.lease_us, "heads": some})
    taken = {event.seq for event in events}
    behind = {seq: ops.look_again_us(now, at) for seq, at, blocked, _ in due if blocked and seq not in taken}
    if 2 * len(behind) > len(due):  # else there is enough to do, and what is ahead of them may soon be out
        yield from _put_off(behind)
    later = yield Statement("outbox.next_due")
    # what others are looking at is due too, and would have us look without end
    more = len(due) >= op.limit and bool(later) and later[0][0] <= now
    return ops.ClaimedEvents(now, events, more, later[0][0] if later else None)


def _rows(heads: Sequence[tuple[int, bool]], each: int) -> Plan[list[ops.Row]]:
    """The heads, and the first few behind those that are followed."""
    found: list[tuple[Any, ...]] = []
    for some in steps([seq for seq, followed in heads if each == 1 or not followed]):
        found += yield Statement("outbox.rows", {"heads": some})
    for head in [seq for seq, followed in heads if each > 1 and followed]:
        found += yield Statement("outbox.lane", {"head": head, "each": each})
    return [_row(row) for row in found]


def _row(row: tuple[Any, ...]) -> ops.Row:
    seq, *names, payload, headers, created, attempts, parked, owner, due = row
    id, event_type, aggregate_type, aggregate_id = map(text, names)
    stored = ops.StoredEvent(
        *(seq, id, event_type, aggregate_type, aggregate_id, raw(text(payload)), raw(text(headers)), created, attempts)
    )
    return ops.Row(stored, bool(parked), None if owner is None else text(owner), due)


def _put_off(dues: Mapping[int, int]) -> Plan[None]:
    """What is ahead of a row may have gone out since it was looked at: then its turn has come."""
    for some in steps(list(dues)):
        behind = yield Statement("outbox.behind", {"seqs": some})
        yield Statement("outbox.put_off", many=[{"seq": seq, "due_us": dues[seq]} for (seq,) in behind])


def settle(op: ops.SettleEvents, now: int) -> Plan[list[bool]]:
    """Mark what is out, put back what is stuck, and let the next of each aggregate come."""
    held: set[int] = set()
    for some in steps([delivery.head for delivery in op.deliveries]):
        rows = yield Statement("outbox.held", {"heads": some, "owner": raw(op.owner)})
        held.update(seq for (seq,) in rows)
    valid = [delivery for delivery in op.deliveries if delivery.head in held]
    for some in steps([seq for delivery in valid for seq in delivery.published]):
        yield Statement("outbox.publish", {"seqs": some, "moment": _moment(now)})
    if notes := [{"note": raw(note), "seq": seq} for each in valid for seq, note in each.notes.items()]:
        yield Statement("outbox.annotate", many=notes)
    if stuck := [_put_back(delivery, now) for delivery in valid if delivery.stuck is not None]:
        yield Statement("outbox.put_back", many=stuck)
    yield from _wake([delivery.head for delivery in valid if delivery.stuck is None], now)
    return [delivery.head in held for delivery in op.deliveries]


def _put_back(delivery: ops.Delivery, now: int) -> dict[str, Any]:
    return {
        "status": "parked" if delivery.park else "pending",
        "failures": int(delivery.counted),
        "due_us": now + delivery.delay_us,
        "note": raw(delivery.note)[:2000],
        "seq": delivery.stuck,
    }


def _wake(heads: Sequence[int], now: int) -> Plan[None]:
    for some in steps(heads):
        rows = yield Statement("outbox.next", {"heads": some})
        if seqs := sorted({seq for (seq,) in rows if seq is not None}):
            yield Statement("outbox.wake", {"seqs": seqs, "now": now})


def view(op: ops.ViewOutbox, now: int) -> Plan[ops.OutboxView]:
    """Counts, each from an index of its own."""
    pending, parked, published, cdc, oldest = (yield Statement("outbox.count"))[0]
    lags = [lag for (lag,) in (yield Statement("outbox.lags"))]
    return ops.OutboxView(now, pending, parked, published, cdc, oldest, ops.median(lags))


def parked(op: ops.ParkedEvents, now: int) -> Plan[list[ops.ParkedEvent]]:
    """The first of them."""
    rows = yield Statement("outbox.parked", {"limit": op.limit})
    found: list[list[Any]] = [[text(part) if isinstance(part, bytes) else part for part in row] for row in rows]
    return [ops.ParkedEvent(*row) for row in found]


def _parked_of(ids: Sequence[str] | None) -> Plan[list[int]]:
    params = {"every": int(ids is None), "ids": list(map(raw, ids or ("",)))}
    return [seq for (seq,) in (yield Statement("outbox.parked_of", params))]


def retry(op: ops.RetryEvents, now: int) -> Plan[int]:
    """Parked rows become pending again."""
    found = yield from _parked_of(op.ids)
    for some in steps(found):
        yield Statement("outbox.retry", {"seqs": some, "now": now})
    return len(found)


def skip(op: ops.SkipEvents, now: int) -> Plan[int]:
    """Parked rows count as published, and the next of their aggregates come."""
    found = yield from _parked_of(op.ids)
    for some in steps(found):
        yield Statement("outbox.skip", {"seqs": some, "moment": _moment(now)})
    yield from _wake(found, now)
    return len(found)


def prune(op: ops.PruneEvents, now: int) -> Plan[ops.PrunedRows]:
    """Delete what has been out for long enough, the oldest first."""
    name = "outbox.old_cdc" if op.cdc else "outbox.old_published"
    rows = yield Statement(name, {"before": _moment(max(0, now - op.age_us)), "limit": op.limit})
    for some in steps(sorted(seq for (seq,) in rows)):
        yield Statement("outbox.delete", {"seqs": some})
    return ops.PrunedRows(len(rows), len(rows) >= op.limit > 0)


def receive(op: ops.Receive, now: int) -> Plan[bool]:
    """Whether the row that is there now is ours."""
    message = {"consumer": _utf8(op.consumer), "message_id": _utf8(op.message_id)}
    yield Statement("outbox.receive", {**message, "nonce": raw(op.nonce), "moment": _moment(now)})
    rows = yield Statement("outbox.receipt", message)
    return text(rows[0][0]) == op.nonce


def prune_inbox(op: ops.PruneInbox, now: int) -> Plan[ops.PrunedRows]:
    """Forget messages, the oldest first."""
    rows = yield Statement("outbox.old_received", {"before": _moment(max(0, now - op.age_us)), "limit": op.limit})
    if rows:
        yield Statement("outbox.forget", many=[{"consumer": row[0], "message_id": row[1]} for row in rows])
    return ops.PrunedRows(len(rows), len(rows) >= op.limit > 0)


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {
    ops.AddEvents: add,
    ops.ClaimEvents: claim,
    ops.SettleEvents: settle,
    ops.ViewOutbox: view,
    ops.ParkedEvents: parked,
    ops.RetryEvents: retry,
    ops.SkipEvents: skip,
    ops.PruneEvents: prune,
    ops.Receive: receive,
    ops.PruneInbox: prune_inbox,
}
