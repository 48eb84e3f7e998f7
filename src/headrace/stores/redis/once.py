"""Once records: taken, renewed, ended and looked at. Those of jobs are in their queue, those of leases in no queue."""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from headrace.core import once_records as records
from headrace.core.operations import OnceEnd
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call, Plan
from headrace.stores.redis.common import Common
from headrace.stores.redis.records import text

_STATES: tuple[Literal["free", "held", "done", "failed"], ...] = ("free", "held", "done", "failed")  # by their digits
_TAKEN: tuple[Literal["other", "held", "done", "failed"], ...] = ("other", "held", "done", "failed")  # likewise
_KEEP = str(records.HELD_KEEP_US)
_RECORD = re.compile(  # as library_once.lua reads it
    rb"(00[0-8]\d{15})(\d{18})(\d{18})(\d{18})([0-3])(\d{4}).{32}", re.DOTALL | re.ASCII
)


def field(scope: str, key: str) -> bytes:
    """The field of a record. Neither part holds a NUL."""
    return f"{scope}\0{key}".encode()


def ending(end: OnceEnd) -> tuple[Any, ...]:
    """Field, fence, new state, how long it is kept and the result, as the scripts read them."""
    keep_us = records.FREE_KEEP_US if end.state == "free" else end.keep_us
    state = str(_STATES.index(end.state))
    return field(end.scope, end.key), b"%018d" % end.fence, state, str(keep_us), marked(end.result)


def marked(result: bytes | None) -> bytes:
    """A result as it stands in a record: none and an empty one differ."""
    return b"-" if result is None else b"+" + result


def take(store: Common, op: records.TakeOnce) -> Plan[list[records.OnceTaken]]:
    """One call for all queues (on a cluster one for each), or one for leases."""
    answers: list[records.OnceTaken] = []
    for start in range(0, len(op.claims), BATCH):
        claims = op.claims[start : start + BATCH]
        if claims[0].queue:
            answers += yield from _take_for_jobs(store, claims)
        else:
            args: list[Any] = [store.moment(), _KEEP, "0", str(len(claims)), *_columns(claims)]
            args += [str(claim.lease_us) for claim in claims]
            answers += [_taken(answer) for answer in (yield Call("take_once", store.keys.once, tuple(args)))]
    return answers


def _take_for_jobs(store: Common, claims: tuple[records.OnceClaim, ...]) -> Plan[list[records.OnceTaken]]:
    places: dict[str, list[int]] = {}
    for place, claim in enumerate(claims):
        places.setdefault(claim.queue, []).append(place)
    answers: dict[int, records.OnceTaken] = {}
    for queues in store.groups(tuple(places)):
        args: list[Any] = [store.moment(), _KEEP, str(len(queues)), *(str(len(places[queue])) for queue in queues)]
        for queue in queues:
            args += _columns([claims[place] for place in places[queue]])
        flat = yield Call("take_once", store.keys.of_all(queues), tuple(args))
        order = (place for queue in queues for place in places[queue])
        answers |= {place: _taken(answer) for place, answer in zip(order, flat, strict=True)}
    return [answers[place] for place in range(len(claims))]


def _columns(claims: list[records.OnceClaim] | tuple[records.OnceClaim, ...]) -> list[Any]:
    args: list[Any] = [field(claim.scope, claim.key) for claim in claims]
    args += [b"%018d" % claim.token for claim in claims]
    for claim in claims:
        owner = claim.owner.encode()
        args.append(b"%04d%b%b-" % (len(owner), claim.fingerprint, owner))
    return args


def _taken(answer: int | list[Any]) -> records.OnceTaken:
    if isinstance(answer, int):
        return records.OnceTaken("mine", answer)
    code, fence, lease_us, result = answer
    return records.OnceTaken(_TAKEN[code], fence, result, lease_us)


def renew(store: Common, op: records.RenewOnce) -> Plan[bool]:
    """Extend a lease."""
    args = (store.moment(), _KEEP, field(op.scope, op.key), op.owner, str(op.lease_us))
    return bool((yield Call("renew_once", store.keys.once, args)))


def end(store: Common, op: records.EndOnce) -> Plan[bool]:
    """End one that is held by a lease."""
    name, *rest = ending(op.end)
    return bool((yield Call("end_once", store.keys.once, (store.moment(), name, op.owner, *rest))))


def look(store: Common, op: records.LookOnce) -> Plan[records.OnceView | None]:
    """One record. What cannot be read is none."""
    key = store.keys.one(op.queue, "once") if op.queue else store.keys.once[0]
    raw = cast("bytes | None", (yield Call("HGET", (key,), (field(op.scope, op.key),))))
    found = _RECORD.match(raw) if raw is not None else None
    if raw is None or found is None:
        return None
    fence, token, lease_until, until, state, size = (int(number) for number in found.groups())
    end_of_owner = found.end() + size
    mark = raw[end_of_owner : end_of_owner + 1]
    if mark not in (b"+", b"-"):
        return None
    return records.OnceView(
        _STATES[state],
        text(raw[found.end() : end_of_owner]),
        token,
        fence,
        until,
        lease_until if _STATES[state] == "held" and not token else None,
        raw[end_of_owner + 1 :] if mark == b"+" else None,
    )
