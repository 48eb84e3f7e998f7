"""Plans of once records. A statement each in the common case; what two do to one record at a time, one does anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import msgspec

from headrace.core.once_records import (
    FREE_KEEP_US,
    HELD_KEEP_US,
    EndOnce,
    LookOnce,
    OnceClaim,
    OnceTaken,
    OnceView,
    RenewOnce,
    TakeOnce,
)
from headrace.core.operations import OnceEnd
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Plan, Statement
from headrace.stores.statements import batches

TRIES = 10  # looks at a record that is free whenever we look and somebody's whenever we write


class Record(msgspec.Struct, frozen=True, gc=False):
    """One as it was found. `runs`: it is a job's that runs under its token."""

    fingerprint: bytes
    state: Literal["held", "done", "failed", "free"]
    owner: str
    token: int
    lease_until_us: int
    fence: int
    until_us: int
    result: bytes | None
    runs: bool

    def is_free(self, now: int) -> bool:
        """Whether anybody may take it."""
        if self.state == "held":
            return not self.runs if self.token else self.lease_until_us <= now
        return self.state == "free" or self.until_us <= now

    def is_of(self, claim: OnceClaim) -> bool:
        """Whether it was taken for this claim."""
        held = (self.state, self.fingerprint, self.owner, self.token)
        return held == ("held", claim.fingerprint, claim.owner, claim.token)

    def answer(self, claim: OnceClaim, now: int) -> OnceTaken:
        """What somebody learns who wants it, where it is not free."""
        if self.fingerprint != claim.fingerprint:
            return OnceTaken("other", self.fence)
        if self.state in ("done", "failed"):
            return OnceTaken(self.state, self.fence, self.result)
        if self.is_of(claim):
            return OnceTaken("mine", self.fence)
        return OnceTaken("held", self.fence, lease_us=0 if self.token else self.lease_until_us - now)


Same = list[tuple[int, OnceClaim]]  # claims of one key, with their places in the operation
Answers = dict[int, OnceTaken]


def take(op: TakeOnce, now: int | None) -> Plan[list[OnceTaken]]:
    """Look and take, in the order of the keys. Claims for one key go one after the other."""
    answers: Answers = {}
    claims = sorted(enumerate(op.claims), key=_key)
    for some in batches(claims):
        left = [list(same) for _, same in groupby(some, _key)]
        for _ in range(TRIES):
            left = yield from _take(left, now, answers)
            if not left:
                break
        else:
            raise StoreUnavailable(f"once record {left[0][0][1].key!r} changes hands too quickly")
    return [answers[nth] for nth in range(len(op.claims))]


def _key(numbered: tuple[int, OnceClaim]) -> tuple[str, str]:
    return numbered[1].scope, numbered[1].key


def _take(left: list[Same], now: int | None, answers: Answers) -> Plan[list[Same]]:
    """Those of whom it is not known yet what they met."""
    first = [_last_like(same[0][1], same) for same in left]
    rows = yield Statement("once.take", {"now": now} | _columns(first), alone=True)
    moment, made = rows[0][:2]
    found = {row[2] - 1: Record(*row[3:]) for row in rows if row[2] is not None}
    all_made = made + len(found) == len(left)  # else another was quicker with one of them: it is there by now
    unclear: list[Same] = []
    free: list[tuple[Same, Record]] = []
    for place, same in enumerate(left):
        if record := found.get(place):
            if record.is_free(moment) or any(record.is_of(claim) for _, claim in same):
                free.append((same, record))
            else:
                answers |= _met(record, same, moment)
        elif all_made:
            answers |= _met(_taken(first[place], moment, moment), same, moment)
        else:
            unclear.append(same)
    return unclear + ((yield from _replace(free, moment, answers)) if free else [])


def _replace(free: list[tuple[Same, Record]], now: int, answers: Answers) -> Plan[list[Same]]:
    """Take what was found free, and once more what is theirs already. Those that were written since are left."""
    takers = [_taker(same, old, now) for same, old in free]
    fences = [max(old.fence + 1, now) if old.is_free(now) else old.fence for _, old in free]
    params = {
        "now": now,
        "fences": fences,
        "old_states": [old.state for _, old in free],
        "old_fences": [old.fence for _, old in free],
        "old_leases": [old.lease_until_us for _, old in free],
        "old_untils": [old.until_us for _, old in free],
    } | _columns(takers)
    written = {nth - 1 for (nth,) in (yield Statement("once.replace", params, alone=True))}
    for place in written:
        same, old = free[place]
        answers |= _met(_taken(takers[place], now, fences[place]) if old.is_free(now) else old, same, now)
    return [same for place, (same, _) in enumerate(free) if place not in written]


def _taker(same: Same, old: Record, now: int) -> OnceClaim:
    """Whose the record becomes, or is already."""
    return _last_like(same[0][1] if old.is_free(now) else next(claim for _, claim in same if old.is_of(claim)), same)


def _last_like(wanted: OnceClaim, same: Same) -> OnceClaim:
    """The last claim of the same holder, whose lease counts."""
    if len(same) == 1:
        return wanted
    who = (wanted.fingerprint, wanted.owner, wanted.token)
    return [claim for _, claim in same if (claim.fingerprint, claim.owner, claim.token) == who][-1]


def _met(record: Record, same: Same, now: int) -> Answers:
    """What each learns in its turn; one that has it already holds it for another lease."""
    answers: Answers = {}
    for nth, claim in same:
        if record.is_of(claim):
            record = _taken(claim, now, record.fence)
        answers[nth] = record.answer(claim, now)
    return answers


def _taken(claim: OnceClaim, now: int, fence: int) -> Record:
    """The record that a claim leaves."""
    lease_until_us = 0 if claim.token else now + claim.lease_us
    names = (claim.owner, claim.token)
    return Record(claim.fingerprint, "held", *names, lease_until_us, fence, now + HELD_KEEP_US, None, runs=True)


def _columns(claims: Sequence[OnceClaim]) -> dict[str, Any]:
    return {
        "keep_us": HELD_KEEP_US,
        "scopes": [claim.scope for claim in claims],
        "keys": [claim.key for claim in claims],
        "fingerprints": [claim.fingerprint for claim in claims],
        "owners": [claim.owner for claim in claims],
        "tokens": [claim.token for claim in claims],
        "leases": [claim.lease_us for claim in claims],
    }


def renew(op: RenewOnce, now: int | None) -> Plan[bool]:
    """Extend a lease."""
    params = {
        "now": now,
        "scope": op.scope,
        "key": op.key,
        "owner": op.owner,
        "lease_us": op.lease_us,
        "keep_us": HELD_KEEP_US,
    }
    return bool((yield Statement("once.renew", params, alone=True)))


def kept_us(end: OnceEnd) -> int:
    """How long a record is remembered once it has ended."""
    return FREE_KEEP_US if end.state == "free" else end.keep_us


def end(op: EndOnce, now: int | None) -> Plan[bool]:
    """Store what came of it, or give it back."""
    params = {
        "now": now,
        "scope": op.end.scope,
        "key": op.end.key,
        "owner": op.owner,
        "fence": op.end.fence,
        "state": op.end.state,
        "result": op.end.result,
        "keep_us": kept_us(op.end),
    }
    if (yield Statement("once.end", params, alone=True))[0][0]:
        return True
    # Sent again while the first one was still at it, it has waited for that one, and then looked at what was before.
    view = yield from look(LookOnce(op.end.scope, op.end.key), now)
    return view is not None and (view.owner, view.token, view.fence, view.state) == (
        op.owner,
        0,
        op.end.fence,
        op.end.state,
    )


def look(op: LookOnce, now: int | None) -> Plan[OnceView | None]:
    """One as it stands."""
    rows = yield Statement("once.look", {"scope": op.scope, "key": op.key}, alone=True)
    return OnceView(*rows[0]) if rows else None


PLANS: Mapping[type[Any], Callable[[Any, int | None], Plan[Any]]] = {
    TakeOnce: take,
    RenewOnce: renew,
    EndOnce: end,
    LookOnce: look,
}
