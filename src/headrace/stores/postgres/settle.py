"""The plan of a settle, and the one path out of `running` that everything else takes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.core.transactions import Committed, Completed
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.heads import Heads
from headrace.stores.statements import batches

# Tombstones are kept this much longer than promised, against a clock that is set back.
CLOCK_MARGIN_US = 60 * 1_000_000

NEVER = 2**63 - 1

LIVES: dict[str, Any] = {"random_us": TOMBSTONE_US, "derived_us": TOMBSTONE_DERIVED_US}


def settle(op: ops.Settle, now: int | None, heads: Heads) -> Plan[list[bool]]:
    """End claims, and clear away about twice as many old tombstones as this leaves new ones."""
    return (yield from end_claims(op.outcomes, now, heads))


def borrowed(op: ops.Settle, now: int | None) -> Plan[list[bool]]:
    """The same in a transaction of the caller's, which may be long: no rows but those of the jobs are touched."""
    heads = Heads()
    heads.buried(NEVER)
    return (yield from end_claims(op.outcomes, now, heads))


def completed(op: Completed, now: int | None) -> Plan[Committed]:
    """One look, and one more that waits for nobody where the job is still there."""
    rows = yield Statement("settle.standing", {"id": op.id}, alone=True)
    if any(token > op.token for token, _ in rows):
        return "no"
    if not any(token == op.token and held for token, held in rows):
        return "yes"
    free = yield Statement("settle.unlocked", {"id": op.id, "token": op.token}, alone=True)
    return "no" if free else "open"


def end_claims(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[bool]]:
    """Take every job whose token matches out of `running`; False stands where it does not.

    A second outcome for the same claim is stale. Rows are taken in the order of their ids, so that whoever ends the
    same claims at the same time waits instead of deadlocking.
    """
    first: dict[tuple[str, int], int] = {}
    for nth, outcome in enumerate(outcomes):
        first.setdefault((outcome.id, outcome.token), nth)
    answers = [False] * len(outcomes)
    for nths in batches([first[claim] for claim in sorted(first)]):
        some = [outcomes[nth] for nth in nths]
        for matched in (yield from _end(some, now, heads)):
            answers[nths[matched - 1]] = True
    return answers


def _end(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    """The places, from 1, of those that matched."""
    if all(outcome.state is State.SUCCEEDED and outcome.keep_us <= 0 for outcome in outcomes):
        return (yield from _succeed(outcomes, now, heads))
    matched = yield from _settle(outcomes, now, heads)
    ended = set(matched)
    # somebody may have asked to cancel just then, which turns a way back into an end: look at those once more
    unclear = [nth for nth, each in enumerate(outcomes, 1) if nth not in ended and each.state not in TERMINAL]
    if unclear:
        again = yield from _settle([outcomes[nth - 1] for nth in unclear], now, heads)
        matched += [unclear[nth - 1] for nth in again]
    return matched


def _succeed(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    rows = yield Statement("settle.succeed", _claims(outcomes, now, heads), alone=True)
    count, matched, buried_us = rows[0]
    heads.buried(buried_us)
    return list(range(1, count + 1)) if count == len(outcomes) else list(matched or ())


def _settle(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    params = _claims(outcomes, now, heads) | {
        "states": [outcome.state.value for outcome in outcomes],
        "delays": [outcome.delay_us for outcome in outcomes],
        "keeps": [outcome.keep_us for outcome in outcomes],
        "reasons": [_storable(outcome.reason) for outcome in outcomes],
        "trails": [outcome.trail for outcome in outcomes],
    }
    rows = yield Statement("settle.settle", params, alone=True)
    heads.buried(rows.pop()[1])
    return [nth for nth, _ in rows]


def _claims(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> dict[str, Any]:
    return {
        "now": now,
        "margin_us": CLOCK_MARGIN_US,
        "buried_us": heads.buried_us,
        "ids": [outcome.id for outcome in outcomes],
        "tokens": [outcome.token for outcome in outcomes],
    } | LIVES


def _storable(text: str) -> str:
    """An outcome must not be refused for its reason: what PostgreSQL cannot store becomes a mark."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
