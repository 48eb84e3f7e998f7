"""Plans of once records: a few statements for a batch, whatever the number of its keys.

A take looks first, without a lock: most keys are new, or have had their effect. Only those that seem to be free are
then inserted; what is there stays as it is and is locked, and only then it is known who has them. Whoever locks several
records does it in the order of their scopes and keys, after the rows of jobs, so that nobody waits in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headrace.core import once_records as records
from headrace.core import operations as ops
from headrace.stores.mysql.text import fitting, light_steps, raw, steps, text
from headrace.stores.plan import Plan, Statement

Place = tuple[bytes, bytes]  # scope and key
Ending = tuple[ops.OnceEnd, bytes, int]  # with its owner and that one's token

STATES: Mapping[bytes, Any] = {b"held": "held", b"done": "done", b"failed": "failed"}  # all others are free


class Record(NamedTuple):
    """What a take has to know of a record."""

    fingerprint: bytes
    state: bytes
    owner: bytes
    token: int
    lease_until_us: int
    fence: int
    until_us: int
    result: bytes | None
    runs: bool  # its job, under its token

    def is_free(self, now: int) -> bool:
        """Whether it is nobody's any more."""
        if self.state == b"held":
            return not self.runs if self.token else self.lease_until_us <= now
        return self.state not in STATES or self.until_us <= now

    def is_of(self, owner: bytes, token: int) -> bool:
        """Whether this is who holds it."""
        return self.state == b"held" and (self.owner, self.token) == (owner, token)


class Wish(NamedTuple):
    """One claim, in bytes."""

    claim: records.OnceClaim
    place: Place
    owner: bytes

    def held(self, fence: int, now: int, *, runs: bool = True) -> Record:
        """The record once it is this one's."""
        claim = self.claim
        lease = 0 if claim.token else now + claim.lease_us
        until = now + records.HELD_KEEP_US
        return Record(claim.fingerprint, b"held", self.owner, claim.token, lease, fence, until, None, runs)


def take(op: records.TakeOnce, override: int | None) -> Plan[list[records.OnceTaken]]:
    """Look, insert what seems to be free, see who has it, and take over what really is."""
    wishes = [
        Wish(claim, (fitting("once scope", claim.scope), fitting("once key", claim.key)), fitting("owner", claim.owner))
        for claim in op.claims
    ]
    firsts: dict[Place, Wish] = {}
    for wish in wishes:
        firsts.setdefault(wish.place, wish)
    now, found = yield from _look(sorted(firsts), override)
    taking = sorted({wish.place for wish in wishes if _seems_free(found.get(wish.place), wish, now)})
    whole = yield from _enter([_row(place, firsts[place].held(now, now)) for place in taking])
    if whole and len(taking) == len(wishes):
        return [records.OnceTaken("mine", now)] * len(wishes)
    wanted = Counter(wish.place for wish in wishes)
    # where a key is wanted more than once here, it counts for the next whether the one before it runs
    running = yield from _running({wish.owner for wish in wishes if wish.claim.token and wanted[wish.place] > 1})
    if whole:
        for place in taking:
            first = firsts[place]
            runs = wanted[place] == 1 or (first.owner, first.claim.token) in running
            found[place] = first.held(now, now, runs=runs)
    else:
        yield from _lock(taking, found, running)
    return (yield from _take(wishes, found, running, now))


def _seems_free(record: Record | None, wish: Wish, now: int) -> bool:
    return record is None or record.is_free(now) or record.is_of(wish.owner, wish.claim.token)


def _look(places: Sequence[Place], override: int | None) -> Plan[tuple[int, dict[Place, Record]]]:
    found: dict[Place, Record] = {}
    moment, now = override, 0
    for some in steps(places or [(b"", b"")]):
        for when, scope, key, *fields, runs in (yield Statement("once.look", {"now": moment, "places": some})):
            if scope is None:
                moment = now = when
            else:
                found[scope, key] = Record._make((*fields, bool(runs)))
    return now, found


def _enter(rows: Sequence[tuple[Any, ...]]) -> Plan[bool]:
    """Whether all of them got in."""
    whole = True
    for some in light_steps(rows):
        yield Statement("once.enter", many=some, mute=True)
        whole = whole and (yield Statement("once.entered"))[0][0] == len(some)
    return whole


def _row(place: Place, record: Record) -> tuple[Any, ...]:
    return (place[0], *record[:7], place[1])


def _running(owners: Iterable[bytes]) -> Plan[set[tuple[bytes, int]]]:
    """Which of them run, and under which token. Costs nothing where there are none."""
    running: set[tuple[bytes, int]] = set()
    for ids in steps(sorted(owners)):
        running.update((yield Statement("once.running", {"ids": ids})))
    return running


def _lock(places: Sequence[Place], found: dict[Place, Record], running: set[tuple[bytes, int]]) -> Plan[None]:
    """What is under these keys now, which nobody else can change any more."""
    locked: dict[Place, tuple[Any, ...]] = {}
    for some in steps(places):
        locked.update(((scope, key), tuple(fields)) for scope, key, *fields in (yield _places("once.locked", some)))
    owners = {owner for _, state, owner, token, *_ in locked.values() if token and state == b"held"}
    running |= yield from _running(owners - {id for id, _ in running})
    for place, (mark, state, owner, token, *rest) in locked.items():
        found[place] = Record._make((mark, state, owner, token, *rest, (owner, token) in running))


def _places(name: str, places: Sequence[Place]) -> Statement:
    return Statement(name, {"places": places})


def _take(
    wishes: Sequence[Wish], found: dict[Place, Record], running: set[tuple[bytes, int]], now: int
) -> Plan[list[records.OnceTaken]]:
    """Each by what the ones before it have taken."""
    answers: list[records.OnceTaken] = []
    before = dict(found)
    for wish in wishes:
        record = found[wish.place]
        answer = _decide(wish, record, now)
        answers.append(answer)
        if answer.status == "mine":
            holder = wish.owner, wish.claim.token
            runs = record.runs if record.is_of(*holder) else holder in running
            found[wish.place] = wish.held(answer.fence, now, runs=runs)
    rows = [_row(place, record) for place, record in sorted(found.items()) if record != before[place]]
    for some in light_steps(rows):
        yield Statement("once.take", many=some, mute=True)
    return answers


def _decide(wish: Wish, record: Record, now: int) -> records.OnceTaken:
    if record.is_free(now):
        return records.OnceTaken("mine", max(record.fence + 1, now))
    if record.fingerprint != wish.claim.fingerprint:
        return records.OnceTaken("other", record.fence)
    if record.state != b"held":
        return records.OnceTaken(STATES[record.state], record.fence, record.result)
    if record.is_of(wish.owner, wish.claim.token):
        return records.OnceTaken("mine", record.fence)  # the answer to the first time was lost
    return records.OnceTaken("held", record.fence, lease_us=0 if record.token else record.lease_until_us - now)


def close(ends: Sequence[Ending], now: int) -> Plan[bool]:
    """End records of jobs without looking at them first. False where one is not held so; the others may have ended."""
    for some in _closing(ends, now):
        yield Statement("once.close", many=some, mute=True)
        if (yield Statement("once.closed"))[0][0] != 2 * len(some):
            return False
    return True


def _closing(ends: Iterable[Ending], now: int) -> Iterator[list[tuple[Any, ...]]]:
    """Rows in the order in which records are locked."""
    rows = [
        (raw(end.scope), owner, token, end.fence, raw(end.state), _until(end, now), raw(end.key), end.result)
        for end, owner, token in ends
    ]
    return light_steps(sorted(rows, key=lambda row: (row[0], row[-2])))


def _until(end: ops.OnceEnd, now: int) -> int:
    return now + (records.FREE_KEEP_US if end.state == "free" else end.keep_us)


class Holders:
    """Who holds some records, which are locked."""

    def __init__(self) -> None:
        self.rows: dict[Place, tuple[bytes, int, int, bytes]] = {}  # owner, token, fence, state

    def holds(self, end: ops.OnceEnd, owner: bytes, token: int) -> bool:
        """Whether this owner may end it, or has ended it just so."""
        row = self.rows.get((raw(end.scope), raw(end.key)))
        return row is not None and row[:3] == (owner, token, end.fence) and row[3] in (b"held", raw(end.state))

    def end(self, ends: Iterable[ops.OnceEnd], now: int) -> Plan[None]:
        """Store what came of them, all of which are held by those who end them."""
        rows: list[Ending] = []
        for end in ends:
            owner, token, _, state = self.rows[raw(end.scope), raw(end.key)]
            if state != raw(end.state):
                rows.append((end, owner, token))
        if len(rows) == 1:
            yield _end(rows[0][0], now)
            return
        for some in _closing(rows, now):
            yield Statement("once.close", many=some, mute=True)


def _end(end: ops.OnceEnd, now: int) -> Statement:
    params = {"scope": raw(end.scope), "key": raw(end.key), "state": raw(end.state), "result": end.result}
    return Statement("once.end", {**params, "until_us": _until(end, now)}, mute=True)


def find_holders(ends: Iterable[ops.OnceEnd]) -> Plan[Holders]:
    """Costs nothing where nothing is to be ended."""
    holders = Holders()
    for some in steps(sorted({(raw(end.scope), raw(end.key)) for end in ends})):
        for scope, key, *fields in (yield _places("once.holders", some)):
            holders.rows[scope, key] = tuple(fields)
    return holders


def end(op: records.EndOnce, now: int) -> Plan[bool]:
    """End a record that is held by a lease."""
    holders = yield from find_holders([op.end])
    if not holders.holds(op.end, raw(op.owner), 0):
        return False
    yield from holders.end([op.end], now)
    return True


def renew(op: records.RenewOnce, now: int) -> Plan[bool]:
    """Extend a lease."""
    place = raw(op.scope), raw(op.key)
    rows = yield _places("once.holders", [place])
    if not rows or (rows[0][2], rows[0][3], rows[0][5]) != (raw(op.owner), 0, b"held"):
        return False
    moments = {"lease_until_us": now + op.lease_us, "until_us": now + records.HELD_KEEP_US}
    yield Statement("once.renew", {"scope": place[0], "key": place[1], **moments}, mute=True)
    return True


def look(op: records.LookOnce, now: int) -> Plan[records.OnceView | None]:
    """One record."""
    rows = yield Statement("once.record", {"scope": raw(op.scope), "key": raw(op.key)})
    if not rows:
        return None
    state, owner, token, fence, until, lease, result = rows[0]
    is_lease = state == b"held" and not token
    return records.OnceView(
        STATES.get(state, "free"), text(owner), token, fence, until, lease if is_lease else None, result
    )


def forget(now: int, limit: int) -> Plan[None]:
    """Delete records whose time is over, the oldest first."""
    rows = yield Statement("once.old", {"now": now, "limit": limit})
    for some in steps(sorted((scope, key) for scope, key in rows)):
        yield _places("once.forget", some)


PLANS: Mapping[type[Any], Callable[[Any, int], Plan[Any]]] = {
    records.RenewOnce: renew,
    records.EndOnce: end,
    records.LookOnce: look,
}
