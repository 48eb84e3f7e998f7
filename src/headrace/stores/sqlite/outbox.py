"""Plans of the outbox and the inbox. One writer at a time, so a claim needs no lock but the file's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core import outbox as ops
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.text import listed
from headrace.stores.statements import batches


def add(op: ops.AddEvents, now: int) -> Plan[None]:
    """Write events in their order."""
    status = "cdc" if op.cdc else "pending"
    for some in batches(op.events):
        yield Statement(
            "outbox.add",
            many=[
                (
                    *(event.id, event.event_type, event.aggregate_type, event.aggregate_id),
                    *(event.payload, event.headers, status, now, now),
                )
                for event in some
            ],
        )


def claim(op: ops.ClaimEvents, now: int) -> Plan[ops.ClaimedEvents]:
    """Look at the first rows whose turn it is; hold the heads among them, and put off those that are blocked."""
    if (yield Statement("outbox.is_cdc"))[0][0]:
        return ops.ClaimedEvents(now, [], more=False, next_due_us=None, cdc=True)
    due: list[tuple[int, int, int]] = yield Statement("outbox.due", {"now": now, "limit": op.limit})
    heads = [seq for seq, _, blocked in due if not blocked]
    events: list[ops.StoredEvent] = []
    if heads:
        params = {"heads": listed(heads), "each": max(1, op.limit // len(heads))}
        rows = [_row(row) for row in (yield Statement("outbox.rows", params))]
        events, held = ops.reachable(rows, heads, op.owner, now, op.limit)
        if held:
            yield Statement("outbox.hold", {"owner": op.owner, "until_us": now + op.lease_us, "heads": listed(held)})
    taken = {event.seq for event in events}
    behind = [(ops.look_again_us(now, created), seq) for seq, created, blocked in due if blocked and seq not in taken]
    if 2 * len(behind) > len(due):  # else there is enough to do, and what is ahead of them may soon be out
        yield Statement("outbox.put_off", many=behind)
    later = yield Statement("outbox.next_due")
    return ops.ClaimedEvents(now, events, bool(later) and later[0][0] <= now, later[0][0] if later else None)


def _row(row: tuple[Any, ...]) -> ops.Row:
    seq, *texts, payload, headers, created, attempts, parked, owner, due = row
    id, event_type, aggregate_type, aggregate_id = (text.decode(errors="replace") for text in texts)
    names = (id, event_type, aggregate_type, aggregate_id)
    return ops.Row(ops.StoredEvent(seq, *names, payload, headers, created, attempts), bool(parked), owner, due)


def settle(op: ops.SettleEvents, now: int) -> Plan[list[bool]]:
    """Mark what is out, put back what is stuck, and let the next of each aggregate come."""
    heads = listed([delivery.head for delivery in op.deliveries])
    rows = yield Statement("outbox.held", {"heads": heads, "owner": op.owner})
    held = {seq for (seq,) in rows}
    valid = [delivery for delivery in op.deliveries if delivery.head in held]
    out = [seq for delivery in valid for seq in delivery.published]
    if out:
        yield Statement("outbox.publish", {"seqs": listed(out), "now": now})
    if notes := [(note, seq) for delivery in valid for seq, note in delivery.notes.items()]:
        yield Statement("outbox.annotate", many=notes)
    if stuck := [_put_back(delivery, now) for delivery in valid if delivery.stuck is not None]:
        yield Statement("outbox.put_back", many=stuck)
    if free := [delivery.head for delivery in valid if delivery.stuck is None]:
        yield Statement("outbox.wake", {"heads": listed(free), "now": now})
    return [delivery.head in held for delivery in op.deliveries]


def _put_back(delivery: ops.Delivery, now: int) -> tuple[Any, ...]:
    status = "parked" if delivery.park else "pending"
    return (status, int(delivery.counted), now + delivery.delay_us, delivery.note, delivery.stuck)


def view(op: ops.ViewOutbox, now: int) -> Plan[ops.OutboxView]:
    """Counts, each from an index of its own."""
    pending, parked, published, cdc, oldest = (yield Statement("outbox.count"))[0]
    lags = [lag for (lag,) in (yield Statement("outbox.lags"))]
    return ops.OutboxView(now, pending, parked, published, cdc, oldest, ops.median(lags))


def parked(op: ops.ParkedEvents, now: int) -> Plan[list[ops.ParkedEvent]]:
    """The first of them."""
    return [ops.ParkedEvent(*row) for row in (yield Statement("outbox.parked", {"limit": op.limit}))]


def retry(op: ops.RetryEvents, now: int) -> Plan[int]:
    """Parked rows become pending again."""
    params = {"every": op.ids is None, "ids": listed(op.ids or ()), "now": now}
    return len((yield Statement("outbox.retry", params)))


def skip(op: ops.SkipEvents, now: int) -> Plan[int]:
    """Parked rows count as published, and the next of their aggregates come."""
    skipped = [seq for (seq,) in (yield Statement("outbox.skip", {"ids": listed(op.ids), "now": now}))]
    if skipped:
        yield Statement("outbox.wake", {"heads": listed(skipped), "now": now})
    return len(skipped)


def prune(op: ops.PruneEvents, now: int) -> Plan[ops.PrunedRows]:
    """Delete what has been out for long enough, the oldest first."""
    name = "outbox.prune_cdc" if op.cdc else "outbox.prune_published"
    return (yield from _pruned(name, now - op.age_us, op.limit))


def _pruned(name: str, before: int, limit: int) -> Plan[ops.PrunedRows]:
    count = len((yield Statement(name, {"before": before, "limit": limit})))
    return ops.PrunedRows(count, count >= limit > 0)


def receive(op: ops.Receive, now: int) -> Plan[bool]:
    """Whether the row that is there now is ours."""
    message = {"consumer": op.consumer, "message_id": op.message_id}
    yield Statement("outbox.receive", {**message, "nonce": op.nonce, "now": now})
    rows = yield Statement("outbox.receipt", message)
    return bool(rows[0][0] == op.nonce)


def prune_inbox(op: ops.PruneInbox, now: int) -> Plan[ops.PrunedRows]:
    """Forget messages, the oldest first."""
    return (yield from _pruned("outbox.prune_inbox", now - op.age_us, op.limit))


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
