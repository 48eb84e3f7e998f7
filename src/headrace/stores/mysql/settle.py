"""The plan of a settle, and the one path out of `running` that everything else takes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.core.transactions import Committed, Completed
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.mysql import once, parking
from headrace.stores.mysql.enqueue import enqueue
from headrace.stores.mysql.heads import Heads
from headrace.stores.mysql.text import MOST_TOKEN, raised, raw, shortened, steps
from headrace.stores.plan import Plan, Statement

# Tombstones are kept this much longer than promised, against a clock that is set back.
CLOCK_MARGIN_US = 60 * 1_000_000
PARKED = raw(State.PARKED.value)
SWEEP_FROM = 16  # a settle of fewer jobs clears old tombstones away only once in so many times

Running = dict[bytes, tuple[int, int, int]]  # id -> (token, whether somebody asked to cancel, whether it is derived)


def settle(op: ops.Settle, override: int | None, heads: Heads) -> Plan[list[bool]]:
    """End claims, and clear away about twice as many old tombstones as this leaves new ones."""
    answers: list[bool] = []
    for some in steps(op.outcomes):
        settled, now = yield from _finish_or_settle(some, override, heads)
        answers += settled
        if now is not None and (len(some) >= SWEEP_FROM or now % SWEEP_FROM == 0):
            limit = 2 * max(SWEEP_FROM, len(some))
            _, last = yield from forget_gone(heads.buried_us, now - CLOCK_MARGIN_US, limit)
            heads.buried_us = max(heads.buried_us, last)
    yield from _follow(op, answers, override, borrowed=False)
    return answers


def borrowed(op: ops.Settle, override: int | None) -> Plan[list[bool]]:
    """The same in a transaction of the caller's, which may be long: no rows but those of the jobs are touched."""
    answers: list[bool] = []
    for some in steps(op.outcomes):
        settled, _ = yield from _settle(some, override)
        answers += settled
    yield from _follow(op, answers, override, borrowed=True)
    return answers


def _follow(op: ops.Settle, answers: Sequence[bool], override: int | None, *, borrowed: bool) -> Plan[None]:
    """Enqueue what follows the jobs that have ended."""
    jobs = tuple(
        job
        for outcome, settled in zip(op.outcomes, answers, strict=True)
        if outcome.then and settled and outcome.state in TERMINAL
        for job in outcome.then
    )
    if jobs:
        yield from enqueue(ops.Enqueue(jobs), override, borrowed=borrowed)


def _finish_or_settle(
    some: Sequence[ops.Outcome], override: int | None, heads: Heads
) -> Plan[tuple[list[bool], int | None]]:
    """Those of one kind together, at less cost; the others, and all of a kind where one has lost its lease, by rows.

    With the answers, the moment where tombstones were left.
    """
    known = [outcome for outcome in some if heads.was_claimed(raw(outcome.id), outcome.token)]
    done: set[str] = set()
    now: int | None = None
    if len({outcome.id for outcome in some}) == len(some):
        plain = [outcome for outcome in known if _is_plain(outcome)]
        now = (yield from _finish(plain, override)) if plain else None
        if now is not None:
            done.update(outcome.id for outcome in plain)
        aside = [outcome for outcome in some if outcome.only_parks]
        if aside and (yield from _park(aside, override)):
            done.update(outcome.id for outcome in aside)
    others = [outcome for outcome in some if outcome.id not in done]
    answers, then = (yield from _settle(others, override)) if others else ([], None)
    settled = iter(answers)
    return [outcome.id in done or next(settled) for outcome in some], then if now is None else now


def _is_plain(outcome: ops.Outcome) -> bool:
    """Whether nothing is left of such a job but its tombstone."""
    return outcome.state in TERMINAL and outcome.state is not State.FAILED and outcome.keep_us <= 0


def _finish(plain: Sequence[ops.Outcome], override: int | None) -> Plan[int | None]:
    """End claims of random ids, and their once records, without looking at them first.

    None, and nothing has happened, where one is stale.
    """
    claims = sorted((raw(outcome.id), outcome.token) for outcome in plain)
    yield Statement("settle.savepoint", mute=True)
    yield Statement("settle.finish", {"claims": claims}, mute=True)
    rows = yield Statement("settle.finished", {"now": override})
    count, now = rows[0]
    ends = [(outcome.once, raw(outcome.id), outcome.token) for outcome in plain if outcome.once is not None]
    if count != len(claims) or (ends and not (yield from once.close(ends, now))):
        yield Statement("settle.unfinish", mute=True)
        return None
    yield Statement("settle.bury", many=[(id, now + TOMBSTONE_US, token) for id, token in claims], mute=True)
    return int(now)


def _park(aside: Sequence[ops.Outcome], override: int | None) -> Plan[bool]:
    """Put jobs aside without a look at them. False, and nothing has happened, where one is stale or cancelled."""
    claims: dict[str, list[tuple[bytes, int]]] = {}
    for outcome in aside:
        claims.setdefault(outcome.reason, []).append((raw(outcome.id), outcome.token))
    yield Statement("settle.savepoint", mute=True)
    for reason, some in claims.items():
        params = {"ids": sorted(id for id, _ in some), "claims": sorted(some), "reason": shortened(reason)}
        params |= {"now": override, "most": MOST_TOKEN}
        yield Statement("settle.park", params, mute=True)
        rows = yield Statement("settle.finished", {"now": override})
        if rows[0][0] != len(some):
            yield Statement("settle.unfinish", mute=True)
            return False
    yield parking.enter(sorted(raw(outcome.id) for outcome in aside))
    return True


def _settle(some: Sequence[ops.Outcome], override: int | None) -> Plan[tuple[list[bool], int | None]]:
    """The answers, and the moment where anything was settled."""
    ids = sorted({raw(outcome.id) for outcome in some})
    rows = yield Statement("settle.running", {"ids": ids, "now": override})
    if not rows:
        return [False] * len(some), None
    now: int = rows[0][0]
    return (yield from end_claims(some, {id: facts for _, id, *facts in rows}, now)), now


def completed(op: Completed, now: int) -> Plan[Committed]:
    """One look, and one more that waits for nobody where the job is still there."""
    rows = yield Statement("settle.standing", {"id": raw(op.id)})
    if any(token > op.token for token, _ in rows):
        return "no"
    if not any(token == op.token and held for token, held in rows):
        return "yes"
    free = yield Statement("settle.unlocked", {"id": raw(op.id), "token": op.token})
    return "no" if free else "open"


def forget_gone(after: int, before: int, limit: int) -> Plan[tuple[int, int]]:
    """Delete tombstones whose time was over between two moments; others may do the same meanwhile.

    Answers how many went, and when the time of the last one was over.
    """
    rows = yield Statement("settle.old_gone", {"after": after, "before": before, "limit": limit})
    for ids in steps(sorted(id for id, _ in rows)):
        yield Statement("settle.forget_gone", {"ids": ids}, mute=True)
    return len(rows), max((until for _, until in rows), default=-1)


def end_claims(outcomes: Sequence[ops.Outcome], running: Running, now: int) -> Plan[list[bool]]:
    """Take every job whose token matches out of `running`, and end its once record with it.

    False stands where the token does not match, or where that record is not the job's any more: the job stays.
    """
    holders = yield from once.find_holders(_records_of(outcomes, running))
    answers: list[bool] = []
    ends: list[ops.OnceEnd] = []
    ending: list[tuple[bytes, int, int, ops.Outcome, State]] = []
    returning: list[tuple[bytes, int, ops.Outcome]] = []
    for outcome in outcomes:
        id = raw(outcome.id)
        token, cancel, derived = running.get(id, (None, 0, 0))
        record = outcome.once
        mine = token == outcome.token and (record is None or holders.holds(record, id, outcome.token))
        answers.append(mine)
        if token is None or not mine:
            continue
        if record is not None:
            ends.append(record)
        del running[id]  # a second outcome for the same claim is stale
        if outcome.state in TERMINAL:
            ending.append((id, token, derived, outcome, outcome.state))
        elif cancel:
            ending.append((id, token, derived, outcome, State.CANCELLED))
        else:
            returning.append((id, token, outcome))
    if ending:
        yield from _end(ending, now)
    if returning:
        yield from _send_back(returning, now)
    yield from holders.end(ends, now)
    return answers


def _records_of(outcomes: Sequence[ops.Outcome], running: Running) -> list[ops.OnceEnd]:
    return [
        outcome.once
        for outcome in outcomes
        if outcome.once is not None and running.get(raw(outcome.id), (None,))[0] == outcome.token
    ]


def _send_back(returning: Sequence[tuple[bytes, int, ops.Outcome]], now: int) -> Plan[None]:
    """Out of `running`, to wait again."""
    rows = [_back(id, token, outcome, now) for id, token, outcome in returning]
    yield Statement("settle.back", many=rows, mute=True)
    if parked := [row["id"] for row in rows if row["state"] == PARKED]:
        yield parking.enter(parked)


def _back(id: bytes, token: int, outcome: ops.Outcome, now: int) -> dict[str, Any]:
    """The token rises, so that whoever held the old one can change nothing any more."""
    return {
        "id": id,
        "state": raw(outcome.state.value),
        "token": raised(token, now),
        "due_us": None if outcome.state is State.READY else now + outcome.delay_us,
        "reason": shortened(outcome.reason),
        "trail": outcome.trail,
    }


def _end(ending: Sequence[tuple[bytes, int, int, ops.Outcome, State]], now: int) -> Plan[None]:
    """The one way a job ends: a tombstone for its id, a copy where it is kept; its key goes with its row."""
    stones = [
        (id, now + (TOMBSTONE_DERIVED_US if derived else TOMBSTONE_US), token) for id, token, derived, _, _ in ending
    ]
    for rows in steps(sorted(stones)):
        yield Statement("settle.bury", many=list(rows), mute=True)
    kept = [
        _kept(id, outcome, state, now)
        for id, _, _, outcome, state in ending
        if state is State.FAILED or outcome.keep_us > 0
    ]
    if kept:
        yield Statement("settle.keep", many=kept, mute=True)
    for ids in steps(sorted(id for id, *_ in ending)):
        yield Statement("settle.delete", {"ids": ids}, mute=True)


def _kept(id: bytes, outcome: ops.Outcome, state: State, now: int) -> dict[str, Any]:
    return {
        "id": id,
        "state": raw(state.value),
        "now": now,
        "keep_until_us": None if state is State.FAILED else now + outcome.keep_us,
        "reason": shortened(outcome.reason if state is outcome.state else "cancelled"),
        "trail": outcome.trail,
    }


def cancel_waiting(id: bytes, facts: tuple[int, int], op: ops.Cancel, now: int) -> Plan[None]:
    """End a job that nobody runs; `facts` are its token and whether its id is derived."""
    outcome = ops.Outcome(op.id, op.queue or "", 0, State.CANCELLED, keep_us=op.keep_us, reason="cancelled")
    yield from _end([(id, *facts, outcome, State.CANCELLED)], now)
