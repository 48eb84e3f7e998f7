"""The plan of a settle, and the one path out of `running` that everything else takes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.mysql.heads import Heads
from headrace.stores.mysql.text import raised, raw, shortened, steps
from headrace.stores.plan import Plan, Statement

# Tombstones are kept this much longer than promised, against a clock that is set back.
CLOCK_MARGIN_US = 60 * 1_000_000
SWEEP_FROM = 16  # a settle of fewer jobs clears old tombstones away only once in so many times

Running = dict[bytes, tuple[int, int, int]]  # id -> (token, whether somebody asked to cancel, whether it is derived)


def settle(op: ops.Settle, override: int | None, heads: Heads) -> Plan[list[bool]]:
    """End claims, and clear away about twice as many old tombstones as this leaves new ones."""
    answers: list[bool] = []
    for some in steps(op.outcomes):
        ids = sorted({raw(outcome.id) for outcome in some})
        rows = yield Statement("settle.running", {"ids": ids, "now": override})
        if not rows:
            answers += [False] * len(some)
            continue
        now: int = rows[0][0]
        answers += yield from end_claims(some, {id: facts for _, id, *facts in rows}, now)
        if len(some) >= SWEEP_FROM or now % SWEEP_FROM == 0:
            limit = 2 * max(SWEEP_FROM, len(some))
            _, last = yield from forget_gone(heads.buried_us, now - CLOCK_MARGIN_US, limit)
            heads.buried_us = max(heads.buried_us, last)
    return answers


def forget_gone(after: int, before: int, limit: int) -> Plan[tuple[int, int]]:
    """Delete tombstones whose time was over between two moments; others may do the same meanwhile.

    Answers how many went, and when the time of the last one was over.
    """
    rows = yield Statement("settle.old_gone", {"after": after, "before": before, "limit": limit})
    for ids in steps(sorted(id for id, _ in rows)):
        yield Statement("settle.forget_gone", {"ids": ids})
    return len(rows), max((until for _, until in rows), default=-1)


def end_claims(outcomes: Sequence[ops.Outcome], running: Running, now: int) -> Plan[list[bool]]:
    """Take every job whose token matches out of `running`; False stands where it does not."""
    answers: list[bool] = []
    ending: list[tuple[bytes, int, int, ops.Outcome, State]] = []
    returning: list[dict[str, Any]] = []
    for outcome in outcomes:
        id = raw(outcome.id)
        token, cancel, derived = running.get(id, (None, 0, 0))
        answers.append(token == outcome.token)
        if token is None or token != outcome.token:
            continue
        del running[id]  # a second outcome for the same claim is stale
        if outcome.state in TERMINAL:
            ending.append((id, token, derived, outcome, outcome.state))
        elif cancel:
            ending.append((id, token, derived, outcome, State.CANCELLED))
        else:
            returning.append(_back(id, token, outcome, now))
    if ending:
        yield from _end(ending, now)
    if returning:
        yield Statement("settle.back", many=returning)
    return answers


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
        yield Statement("settle.bury", many=list(rows))
    kept = [
        _kept(id, outcome, state, now)
        for id, _, _, outcome, state in ending
        if state is State.FAILED or outcome.keep_us > 0
    ]
    if kept:
        yield Statement("settle.keep", many=kept)
    for ids in steps(sorted(id for id, *_ in ending)):
        yield Statement("settle.delete", {"ids": ids})


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
