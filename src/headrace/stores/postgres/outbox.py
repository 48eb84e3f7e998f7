"""Plans of the outbox and the inbox. A relay locks the rows it looks at, and passes over those that others look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core import outbox as ops
from headrace.stores.plan import Plan, Statement
from headrace.stores.statements import batches


def add(op: ops.AddEvents, now: int | None) -> Plan[None]:
    """Write events in their order: one statement, which touches no other row."""
    for events in batches(op.events):
        params = {
            "now": now,
            "status": "cdc" if op.cdc else "pending",
            "ids": [event.id for event in events],
            "event_types": [event.event_type for event in events],
            "aggregate_types": [event.aggregate_type for event in events],
            "aggregate_ids": [event.aggregate_id for event in events],
            "payloads": [event.payload for event in events],
            "headers": [event.headers for event in events],
        }
        yield Statement("outbox.add", params, alone=len(events) == len(op.events))


def _moment(now: int | None) -> Plan[int]:
    moment: int = (yield Statement("outbox.moment", {"now": now}))[0][0]
    return moment


def claim(op: ops.ClaimEvents, given: int | None) -> Plan[ops.ClaimedEvents]:
    """Look at the first rows whose turn it is; hold the heads among them, and put off those that are blocked."""
    if (yield Statement("outbox.is_cdc"))[0][0]:
        return ops.ClaimedEvents(0, [], more=False, next_due_us=None, cdc=True)
    now = yield from _moment(given)
    due: list[tuple[int, int, bool]] = yield Statement("outbox.due", {"now": now, "limit": op.limit})
    heads = [seq for seq, _, blocked in due if not blocked]
    events: list[ops.StoredEvent] = []
    if heads:
        params = {"heads": heads, "each": max(1, op.limit // len(heads))}
        rows = [_row(row) for row in (yield Statement("outbox.rows", params))]
        events, held = ops.reachable(rows, heads, op.owner, now, op.limit)
        if held:
            yield Statement("outbox.hold", {"owner": op.owner, "until_us": now + op.lease_us, "heads": held})
    taken = {event.seq for event in events}
    behind = [(seq, ops.look_again_us(now, created)) for seq, created, blocked in due if blocked and seq not in taken]
    if 2 * len(behind) > len(due):  # else there is enough to do, and what is ahead of them may soon be out
        params = {"seqs": [seq for seq, _ in behind], "dues": [moment for _, moment in behind]}
        yield Statement("outbox.put_off", params)
    later = yield Statement("outbox.next_due")
    # what others are looking at is due too, and would have us look without end
    more = len(due) >= op.limit and bool(later) and later[0][0] <= now
    return ops.ClaimedEvents(now, events, more, later[0][0] if later else None)


def _row(row: tuple[Any, ...]) -> ops.Row:
    seq, id, event_type, aggregate_type, aggregate_id, payload, headers, created, attempts, parked, owner, due = row
    names = (id, event_type, aggregate_type, aggregate_id)
    stored = ops.StoredEvent(seq, *names, payload.encode(), headers.encode(), created, attempts)
    return ops.Row(stored, parked, owner, due)


def settle(op: ops.SettleEvents, given: int | None) -> Plan[list[bool]]:
    """Mark what is out, put back what is stuck, and let the next of each aggregate come."""
    now = yield from _moment(given)
    heads = [delivery.head for delivery in op.deliveries]
    held = {seq for (seq,) in (yield Statement("outbox.held", {"heads": heads, "owner": op.owner}))}
    valid = [delivery for delivery in op.deliveries if delivery.head in held]
    out = [(seq, delivery.notes.get(seq, "")) for delivery in valid for seq in delivery.published]
    if out:
        params = {"seqs": [seq for seq, _ in out], "notes": [note for _, note in out], "now": now}
        yield Statement("outbox.publish", params)
    if stuck := [delivery for delivery in valid if delivery.stuck is not None]:
        yield Statement("outbox.put_back", _put_back(stuck, now))
    if free := [delivery.head for delivery in valid if delivery.stuck is None]:
        yield Statement("outbox.wake", {"heads": free, "now": now})
    return [head in held for head in heads]


def _put_back(stuck: list[ops.Delivery], now: int) -> dict[str, list[Any]]:
    return {
        "seqs": [delivery.stuck for delivery in stuck],
        "statuses": ["parked" if delivery.park else "pending" for delivery in stuck],
        "failures": [int(delivery.counted) for delivery in stuck],
        "dues": [now + delivery.delay_us for delivery in stuck],
        "notes": [delivery.note.replace("\x00", "\N{REPLACEMENT CHARACTER}") for delivery in stuck],
    }


def view(op: ops.ViewOutbox, given: int | None) -> Plan[ops.OutboxView]:
    """Counts, each from an index of its own."""
    now = yield from _moment(given)
    pending, parked, published, cdc, oldest = (yield Statement("outbox.count"))[0]
    lags = [lag for (lag,) in (yield Statement("outbox.lags"))]
    return ops.OutboxView(now, pending, parked, published, cdc, oldest, ops.median(lags))


def parked(op: ops.ParkedEvents, given: int | None) -> Plan[list[ops.ParkedEvent]]:
    """The first of them."""
    return [ops.ParkedEvent(*row) for row in (yield Statement("outbox.parked", {"limit": op.limit}, alone=True))]


def retry(op: ops.RetryEvents, given: int | None) -> Plan[int]:
    """Parked rows become pending again."""
    now = yield from _moment(given)
    params = {"every": op.ids is None, "ids": list(op.ids or ()), "now": now}
    return len((yield Statement("outbox.retry", params)))


def skip(op: ops.SkipEvents, given: int | None) -> Plan[int]:
    """Parked rows count as published, and the next of their aggregates come."""
    now = yield from _moment(given)
    skipped = [seq for (seq,) in (yield Statement("outbox.skip", {"ids": list(op.ids), "now": now}))]
    if skipped:
        yield Statement("outbox.wake", {"heads": skipped, "now": now})
    return len(skipped)


def prune(op: ops.PruneEvents, given: int | None) -> Plan[ops.PrunedRows]:
    """Delete what has been out for long enough, the oldest first."""
    return (yield from _pruned("outbox.prune_cdc" if op.cdc else "outbox.prune_published", op.age_us, op.limit, given))


def _pruned(name: str, age_us: int, limit: int, given: int | None) -> Plan[ops.PrunedRows]:
    now = yield from _moment(given)
    count = len((yield Statement(name, {"before": now - age_us, "limit": limit})))
    return ops.PrunedRows(count, count >= limit > 0)


def receive(op: ops.Receive, given: int | None) -> Plan[bool]:
    """Whether the row is ours: it was not there, or there to see only once another transaction had ended."""
    params = {"consumer": op.consumer, "message_id": op.message_id, "nonce": op.nonce, "now": given}
    return bool((yield Statement("outbox.receive", params, alone=True)))


def prune_inbox(op: ops.PruneInbox, given: int | None) -> Plan[ops.PrunedRows]:
    """Forget messages, the oldest first."""
    return (yield from _pruned("outbox.prune_inbox", op.age_us, op.limit, given))


PLANS: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {
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
