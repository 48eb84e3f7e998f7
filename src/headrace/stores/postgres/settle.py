"""The plan of a settle, and the one path out of `running` that everything else takes too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.core.transactions import Committed, Completed
from headrace.stores.contract import TOMBSTONE_DERIVED_US, TOMBSTONE_US
from headrace.stores.plan import Plan, Statement
from headrace.stores.postgres.enqueue import enqueue
from headrace.stores.postgres.heads import Heads
from headrace.stores.postgres.once import kept_us
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
    return (yield from end_claims(op.outcomes, now, heads, promoting=False))


def completed(op: Completed, now: int | None) -> Plan[Committed]:
    """One look, and one more that waits for nobody where the job is still there."""
    rows = yield Statement("settle.standing", {"id": op.id}, alone=True)
    if any(token > op.token for token, _ in rows):
        return "no"
    if not any(token == op.token and held for token, held in rows):
        return "yes"
    free = yield Statement("settle.unlocked", {"id": op.id, "token": op.token}, alone=True)
    return "no" if free else "open"


def end_claims(
    outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads, *, promoting: bool = True
) -> Plan[list[bool]]:
    """Take every job whose token matches out of `running`, and end what ends with it.

    False stands where it does not match, or where its once record is not the job's any more. A second outcome for the
    same claim is stale. Rows are taken in the order of their ids, so that whoever ends the same claims at the same time
    waits instead of deadlocking.
    """
    first: dict[tuple[str, int], int] = {}
    for nth, outcome in enumerate(outcomes):
        first.setdefault((outcome.id, outcome.token), nth)
    answers = [False] * len(outcomes)
    left = [first[claim] for claim in sorted(first)]
    for nths in batches([nth for nth in left if outcomes[nth].only_parks]):
        parked = yield from _park([outcomes[nth] for nth in nths], now)
        for matched in parked:
            answers[nths[matched - 1]] = True
    # also what was to be parked and did not match: somebody may have asked to cancel it
    for nths in batches([nth for nth in left if not answers[nth]]):
        some = [outcomes[nth] for nth in nths]
        if any(outcome.once is not None or outcome.then for outcome in some):
            ended = yield from _end_more(some, now, heads)
        else:
            ended = yield from _end(some, now, heads)
        for matched in ended:
            answers[nths[matched - 1]] = True
    ended_by = [outcome for outcome, matched in zip(outcomes, answers, strict=True) if matched]
    if then := tuple(job for outcome in ended_by if outcome.then and outcome.state in TERMINAL for job in outcome.then):
        yield from enqueue(ops.Enqueue(then), now, promoting=promoting)
    return answers


def _park(outcomes: Sequence[ops.Outcome], now: int | None) -> Plan[list[int]]:
    """The places, from 1, of those that are parked now."""
    params = {
        "now": now,
        "ids": [outcome.id for outcome in outcomes],
        "tokens": [outcome.token for outcome in outcomes],
        "reasons": [storable(outcome.reason) for outcome in outcomes],
    }
    return [nth for (nth,) in (yield Statement("settle.park", params, alone=True))]


def _is_quick(outcome: ops.Outcome) -> bool:
    return outcome.state is State.SUCCEEDED and outcome.keep_us <= 0 and not outcome.then


def _end_more(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    """Where once records end too, or jobs follow: one statement for what ended well, for the others a transaction."""
    quick = [nth for nth, outcome in enumerate(outcomes, 1) if _is_quick(outcome)]
    others = [nth for nth, outcome in enumerate(outcomes, 1) if not _is_quick(outcome)]
    matched: list[int] = []
    if quick:
        some = [outcomes[nth - 1] for nth in quick]
        matched += [quick[nth - 1] for nth in (yield from _succeed_once(some, now, heads))]
    if others:
        some = [outcomes[nth - 1] for nth in others]
        matched += [others[nth - 1] for nth in (yield from _end_in_steps(some, now, heads))]
    return matched


def _succeed_once(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    ends = [outcome.once for outcome in outcomes]
    rows = yield Statement("settle.succeed_once", _claims(outcomes, now, heads) | _records(ends), alone=True)
    return _ended(rows[0], len(outcomes), heads)


def _end_in_steps(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    """Hold the records, end the jobs whose they are, and then the records. The transaction goes on for what follows."""
    valid = [nth for nth, outcome in enumerate(outcomes, 1) if outcome.once is None]
    guarded = [nth for nth, outcome in enumerate(outcomes, 1) if outcome.once is not None]
    # asked also where it is about none: it begins the transaction
    valid += [guarded[nth - 1] for nth in (yield from _owned([outcomes[nth - 1] for nth in guarded]))]
    some = [outcomes[nth - 1] for nth in sorted(valid)]
    matched = [sorted(valid)[nth - 1] for nth in (yield from _end(some, now, heads))] if some else []
    ended = [outcomes[nth - 1] for nth in matched]
    if ends := [outcome.once for outcome in ended if outcome.once is not None]:
        yield Statement("once.close", {"now": now} | _records(ends))
    return matched


def _owned(outcomes: Sequence[ops.Outcome]) -> Plan[list[int]]:
    params = {
        "ids": [outcome.id for outcome in outcomes],
        "tokens": [outcome.token for outcome in outcomes],
    } | _records([outcome.once for outcome in outcomes])
    return [nth for (nth,) in (yield Statement("once.owned", params))]


def _records(ends: Sequence[ops.OnceEnd | None]) -> dict[str, Any]:
    return {
        "scopes": [end and end.scope for end in ends],
        "keys": [end and end.key for end in ends],
        "fences": [end and end.fence for end in ends],
        "states": [end and end.state for end in ends],
        "results": [end and end.result for end in ends],
        "keeps": [end and kept_us(end) for end in ends],
    }


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
    return _ended(rows[0], len(outcomes), heads)


def _ended(row: tuple[Any, ...], asked: int, heads: Heads) -> list[int]:
    count, matched, buried_us = row
    heads.buried(buried_us)
    return list(range(1, count + 1)) if count == asked else list(matched or ())


def _settle(outcomes: Sequence[ops.Outcome], now: int | None, heads: Heads) -> Plan[list[int]]:
    params = _claims(outcomes, now, heads) | {
        "states": [outcome.state.value for outcome in outcomes],
        "delays": [outcome.delay_us for outcome in outcomes],
        "keeps": [outcome.keep_us for outcome in outcomes],
        "reasons": [storable(outcome.reason) for outcome in outcomes],
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


def storable(text: str) -> str:
    """An outcome must not be refused for its reason: what PostgreSQL cannot store becomes a mark."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
