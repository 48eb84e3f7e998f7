"""Plans of once records: a few statements for a batch, whatever the number of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.core import once_records as records
from headrace.core import operations as ops
from headrace.stores.plan import Plan, Statement
from headrace.stores.sqlite.text import by_id, listed
from headrace.stores.statements import batches

Place = tuple[str, str]  # scope and key


class Record(NamedTuple):
    """What a take has to know of a record."""

    fingerprint: bytes
    state: Any  # held, done, failed or free
    owner: bytes
    token: int
    lease_until_us: int
    fence: int
    until_us: int
    result: bytes | None
    runs: bool  # its job, under its token

    def is_free(self, now: int) -> bool:
        """Whether it is nobody's any more."""
        if self.state == "held":
            return not self.runs if self.token else self.lease_until_us <= now
        return self.state == "free" or self.until_us <= now


def take(op: records.TakeOnce, now: int) -> Plan[list[records.OnceTaken]]:
    """Look at all records, decide about each claim by what the ones before it have taken, and store what was taken."""
    answers: list[records.OnceTaken] = []
    for some in batches(op.claims):
        found = yield from _found([(claim.scope, claim.key) for claim in some])
        running = yield from _running_rivals(some)
        rows: dict[Place, tuple[Any, ...]] = {}
        for claim in some:
            place = claim.scope, claim.key
            answer = _decide(claim, found.get(place), now)
            answers.append(answer)
            if answer.status == "mine":
                runs = (claim.owner, claim.token) in running
                found[place] = record = _held(claim, answer.fence, now, runs=runs)
                rows[place] = (*place, record.fingerprint, claim.owner, *record[3:7])
        if rows:
            yield Statement("once.take", many=list(rows.values()))
    return answers


def _found(places: Sequence[Place]) -> Plan[dict[Place, Record]]:
    found: dict[Place, Record] = {}
    for pairs in _pairs(places):
        for scope, key, *rest in (yield Statement("once.found", pairs)):
            found[scope, key] = Record(*rest)
    return found


def _pairs(places: Iterable[Place]) -> Iterator[dict[str, str]]:
    return ({"pairs": listed(some)} for some in batches(list(dict.fromkeys(places))))


def _running_rivals(claims: Sequence[records.OnceClaim]) -> Plan[set[tuple[str, int]]]:
    """Of jobs that want one key at a time, those that run. Costs nothing where each has a key of its own."""
    seen: dict[Place, str] = {}
    rivals: set[str] = set()
    for claim in claims:
        place = claim.scope, claim.key
        if place in seen and claim.token:
            rivals |= {seen[place], claim.owner}
        seen[place] = claim.owner
    running: set[tuple[str, int]] = set()
    for _, params in by_id(sorted(rivals), str):
        running.update((yield Statement("once.running", params)))
    return running


def _decide(claim: records.OnceClaim, record: Record | None, now: int) -> records.OnceTaken:
    if record is None:
        return records.OnceTaken("mine", now)
    if record.is_free(now):
        return records.OnceTaken("mine", max(record.fence + 1, now))
    if record.fingerprint != claim.fingerprint:
        return records.OnceTaken("other", record.fence)
    if record.state != "held":
        return records.OnceTaken(record.state, record.fence, record.result)
    if (record.owner, record.token) == (claim.owner.encode(), claim.token):
        return records.OnceTaken("mine", record.fence)  # the answer to the first time was lost
    return records.OnceTaken("held", record.fence, lease_us=0 if record.token else record.lease_until_us - now)


def _held(claim: records.OnceClaim, fence: int, now: int, *, runs: bool) -> Record:
    lease = 0 if claim.token else now + claim.lease_us
    until = now + records.HELD_KEEP_US
    return Record(claim.fingerprint, "held", claim.owner.encode(), claim.token, lease, fence, until, None, runs)


def renew(op: records.RenewOnce, now: int) -> Plan[bool]:
    """Extend a lease."""
    moments = {"lease_until_us": now + op.lease_us, "until_us": now + records.HELD_KEEP_US}
    rows = yield Statement("once.renew", {"scope": op.scope, "key": op.key, "owner": op.owner, **moments})
    return bool(rows)


def end(op: records.EndOnce, now: int) -> Plan[bool]:
    """End a record that is held by a lease."""
    holders = yield from find_holders([op.end])
    if not holders.holds(op.end, op.owner, 0):
        return False
    yield from holders.end([op.end], now)
    return True


class Holders:
    """Who holds some records, and how."""

    def __init__(self) -> None:
        self.rows: dict[Place, tuple[bytes, int, int, str, int]] = {}  # owner, token, fence, state, rowid

    def holds(self, end: ops.OnceEnd, owner: str, token: int) -> bool:
        """Whether this owner may end it, or has ended it just so."""
        row = self.rows.get((end.scope, end.key))
        return row is not None and row[:3] == (owner.encode(), token, end.fence) and row[3] in ("held", end.state)

    def end(self, ends: Iterable[ops.OnceEnd], now: int) -> Plan[None]:
        """Store what came of them, all of which are held by those who end them."""
        rows: list[tuple[Any, ...]] = []
        for each in ends:
            *_, state, rowid = self.rows[each.scope, each.key]
            if state != each.state:
                keep_us = records.FREE_KEEP_US if each.state == "free" else each.keep_us
                rows.append((each.state, each.result, now + keep_us, rowid))
        if rows:
            yield Statement("once.end", many=rows)


def find_holders(ends: Sequence[ops.OnceEnd]) -> Plan[Holders]:
    """Costs nothing where nothing is to be ended."""
    holders = Holders()
    for pairs in _pairs((end.scope, end.key) for end in ends):
        for scope, key, *rest in (yield Statement("once.holders", pairs)):
            holders.rows[scope, key] = tuple(rest)
    return holders


def look(op: records.LookOnce, now: int) -> Plan[records.OnceView | None]:
    """One record."""
    rows = yield Statement("once.look", {"scope": op.scope, "key": op.key})
    return records.OnceView(*rows[0]) if rows else None


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {
    records.TakeOnce: take,
    records.RenewOnce: renew,
    records.EndOnce: end,
    records.LookOnce: look,
}
