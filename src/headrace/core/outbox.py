"""The transactional outbox and the inbox, as data: operations and answers that every SQL store has plans for.

A row is `pending` until it is published; `parked` after too many failures; `cdc` rows are read from the database's log
by somebody else and are none of a relay's business. Rows of one (aggregate_type, aggregate_id) are an aggregate: its
oldest unpublished row is its *head*, and whoever holds the head holds the aggregate. Nobody reads "from where I was":
a row with a smaller `seq` may become visible after one with a greater, since numbers are drawn before the commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from headrace.core.operations import Operation

QUEUE = "headrace.outbox"  # what relays listen to, by the means that workers have for their queues
JOB_EVENT = "headrace.job"  # the event type of a job on its way to another store

LOOK_AGAIN_US = 1_000_000  # a row behind a head that is held is looked at again after so long, at first
LOOK_AGAIN_MOST_US = 3600 * 1_000_000


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    """An event on its way into the outbox. `payload` and `headers` are JSON texts, opaque to every store."""

    id: str  # a UUID
    event_type: str
    aggregate_type: str
    aggregate_id: str
    payload: str
    headers: str = "{}"  # an object of texts


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """An event in the hands of a relay. What another program wrote may be no JSON, so bytes it is."""

    seq: int
    id: str
    event_type: str
    aggregate_type: str
    aggregate_id: str
    payload: bytes
    headers: bytes
    created_us: int
    attempts: int  # deliveries that failed


class ClaimedEvents(msgspec.Struct, frozen=True, gc=False):
    """What a claim brought, in the order of `seq`. `more`: look again at once. `cdc`: no table for a relay."""

    now_us: int
    events: list[StoredEvent]
    more: bool
    next_due_us: int | None
    cdc: bool = False


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """How the relay got on with one aggregate: `published` rows, and the `stuck` one after them, if there is one.

    A stuck row is due again after `delay_us`, or parked; until then no later row of its aggregate passes it.
    """

    head: int  # the seq under which the aggregate was claimed
    published: tuple[int, ...]
    stuck: int | None = None
    delay_us: int = 0
    counted: bool = True  # whether this was the event's failure: an outage of its destination is not
    park: bool = False
    note: str = ""  # why
    notes: dict[int, str] = {}  # of published rows, such as "duplicate of ID"


class OutboxView(msgspec.Struct, frozen=True):
    """The outbox as an operator sees it."""

    now_us: int
    pending: int
    parked: int
    published: int  # those not yet pruned
    cdc: int
    oldest_us: int | None  # when the oldest pending row was written
    lag_us: int | None  # median time from written to published, of the last hundred


class ParkedEvent(msgspec.Struct, frozen=True):
    """An event that the relay has given up, and that holds up its aggregate."""

    seq: int
    id: str
    event_type: str
    aggregate_type: str
    aggregate_id: str
    created_us: int
    attempts: int
    note: str


class PrunedRows(msgspec.Struct, frozen=True):
    """How many rows went. `more`: others whose time is over are left for another call."""

    count: int
    more: bool


class AddEvents(msgspec.Struct, Operation[None], frozen=True):
    """Write events, in their order. An id that is there already is passed over, without an error."""

    rung: ClassVar[str | None] = QUEUE
    events: tuple[NewEvent, ...]
    cdc: bool = False


class ClaimEvents(msgspec.Struct, Operation[ClaimedEvents], frozen=True):
    """Take up to `limit` due events, whole aggregates from their heads on, for `lease_us`.

    While the lease lasts nobody else is given an event of these aggregates, not even one that is written later.
    """

    owner: str
    lease_us: int
    limit: int


class SettleEvents(msgspec.Struct, Operation["list[bool]"], frozen=True):
    """Say how deliveries went. False stands where the aggregate was no longer held: nothing was changed there."""

    owner: str
    deliveries: tuple[Delivery, ...]


class ViewOutbox(msgspec.Struct, Operation[OutboxView], frozen=True):
    """Counts, the oldest pending row, and the lag."""

    writes = False


class ParkedEvents(msgspec.Struct, Operation["list[ParkedEvent]"], frozen=True):
    """The first parked events in the order of `seq`."""

    writes = False
    limit: int = 100


class RetryEvents(msgspec.Struct, Operation[int], frozen=True):
    """Make parked events pending again with no failures counted: these, or all. Answers how many there were."""

    rung: ClassVar[str | None] = QUEUE
    ids: tuple[str, ...] | None = None


class SkipEvents(msgspec.Struct, Operation[int], frozen=True):
    """Give parked events up for good, so that their aggregates go on without them. Answers how many there were."""

    rung: ClassVar[str | None] = QUEUE
    ids: tuple[str, ...]


class PruneEvents(msgspec.Struct, Operation[PrunedRows], frozen=True):
    """Delete rows that were published more than `age_us` ago, or `cdc` rows written before that, at most `limit`."""

    age_us: int
    limit: int = 1000
    cdc: bool = False


class Receive(msgspec.Struct, Operation[bool], frozen=True):
    """Note in the inbox that `consumer` has got a message. False: it had been noted before.

    `nonce` is new with each call: a row that carries it was written by this call. In a transaction that has yet to
    end, another one with the same message waits for it.
    """

    consumer: str
    message_id: str
    nonce: str


class PruneInbox(msgspec.Struct, Operation[PrunedRows], frozen=True):
    """Forget messages received more than `age_us` ago, at most `limit` of them."""

    age_us: int
    limit: int = 1000


# -- what every store's plans decide alike


class Row(msgspec.Struct, frozen=True, gc=False):
    """An unpublished row of an aggregate, as a claim looks at it."""

    event: StoredEvent
    parked: bool
    owner: str | None
    due_us: int


def look_again_us(now_us: int, created_us: int) -> int:
    """When a row that could not be claimed is looked at next: the older it is, the later. What frees it comes first."""
    return now_us + min(LOOK_AGAIN_MOST_US, max(LOOK_AGAIN_US, now_us - created_us))


def reachable(
    rows: Iterable[Row], heads: Iterable[int], owner: str, now_us: int, limit: int
) -> tuple[list[StoredEvent], list[int]]:
    """The events a claim takes, at most `limit` in the order of `seq`, and the heads it holds them by.

    `rows` are unpublished rows of the heads' aggregates. Nothing is taken from behind a row that is parked or in other
    hands, and no aggregate without its head.
    """
    free, blocked = set(heads), set()
    taken: list[StoredEvent] = []
    held: list[int] = []
    open_: set[tuple[str, str]] = set()
    for row in sorted(rows, key=lambda row: row.event.seq):
        event = row.event
        lane = event.aggregate_type, event.aggregate_id
        if lane in blocked:
            continue
        elsewhere = row.owner is not None and row.owner != owner and row.due_us > now_us
        begins = event.seq in free
        if len(taken) >= limit or row.parked or elsewhere or (lane not in open_ and not begins):
            blocked.add(lane)
            continue
        if lane not in open_:
            open_.add(lane)
            held.append(event.seq)
        taken.append(event)
    return taken, held


def median(values: list[int]) -> int | None:
    """The middle one; None of none."""
    return sorted(values)[len(values) // 2] if values else None
