"""Plans of producers, and the promotion of due jobs that claims and enqueues carry with them.

New rows are inserted first, and what is there already stays as it is; only then is it read who won. So two producers
with one id or one key wait for each other, and neither can miss what the other did. An enqueue may run in a
transaction of somebody else (`borrowed`): what it must know then is read with locks, for that transaction may look at
an old snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from operator import attrgetter
from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.stores.contract import BATCH
from headrace.stores.mysql.text import fitting, held, light_steps, raised, raw, steps, text
from headrace.stores.plan import Plan, Statement

DRAW = 10_000_000  # places under one number that was drawn
PLAIN = (0, 0, None, None, b"end", 0)  # the options of most jobs, and what their columns hold by themselves
ROOM = b" " * 64  # for the worker's name and what else a claim writes into a row

Row = tuple[Any, ...]

_kind = attrgetter("queue", "task", "priority", "delay_us", "due_us", "derived")


class New(msgspec.Struct, frozen=True, gc=False):
    """One job on its way in: its row, and what decides about it."""

    job: ops.NewJob
    id: bytes
    key: bytes | None  # within its queue
    place: int
    row: Row
    options: Row  # the columns that a plain job leaves as they are

    def whole_row(self) -> Row:
        """The row with all its columns."""
        return (*self.row[:-1], *self.options, self.row[-1])


class Found(msgspec.Struct):
    """What the store has under some ids."""

    places: dict[bytes, int] = {}
    gone: dict[bytes, tuple[int, int]] = {}  # tombstones: (until, last token)
    ended: set[bytes] = set()

    def has_ended(self, id: bytes, now: int) -> bool:
        """Whether this id was a job that is over, and still remembered."""
        return id in self.ended or self.gone.get(id, (0, 0))[0] > now


def enqueue(op: ops.Enqueue, now: int | None, *, borrowed: bool = False) -> Plan[list[ops.Enqueued]]:
    """Insert, see who won, and take back what had ended before. In somebody else's transaction nothing is promoted."""
    names = sorted({raw(job.queue) for job in op.jobs})
    yield Statement("enqueue.draw", mute=True)
    rows = yield Statement("enqueue.look", {"now": now, "queues": names or [b""]})
    moment, number = rows[0][:2]
    due = [name for *_, name, turn in rows if turn is not None and turn <= moment]
    if due and not borrowed:
        yield from promote_from(due, moment, BATCH)
        number = yield from draw()  # those that were due come first
    new = list(_all_new(op.jobs, moment, number * DRAW))
    answers = yield from _Entry(new, moment, borrowed=borrowed).run()
    known = {name for *_, name, _ in rows}
    stored = {raw(job.queue) for job, answer in zip(op.jobs, answers, strict=True) if answer.status == "new"}
    # a caller's long transaction must not hold up others that use the queue for the first time
    if (missing := sorted(stored - known)) and not borrowed:
        yield Statement("enqueue.queues", many=[(name,) for name in missing], mute=True)
    return answers


def _all_new(jobs: Iterable[ops.NewJob], now: int, first: int) -> Iterator[New]:
    """Rows for jobs that go to the end of the line in their order. Most differ in nothing but ids and bodies."""
    places = count(first)
    for (queue, task, priority, delay_us, due_us, derived), alike in groupby(jobs, _kind):
        name = fitting("queue", queue)
        due = due_us if due_us is not None else now + max(0, delay_us)
        state, turn = (b"scheduled", due) if due > now else (b"ready", -priority)
        before = (name, fitting("task", task), state, turn)
        after = (now, now, now, due, max(now, due), ROOM)
        rest = (priority, int(derived))
        plain = (*rest, *PLAIN[len(rest) :])
        for job, place in zip(alike, places, strict=False):
            unique = None if job.unique is None else fitting("unique key", job.unique)
            key = None if unique is None else held(name, unique)
            id = fitting("id", job.id)
            until = raw(job.unique_until)
            options = plain if unique is None else (*rest, unique, key, until, job.unique_us)
            yield New(job, id, key, place, (id, *before, place, *after, job.body), options)


class _Entry:
    """One enqueue. Jobs with the same id or key go one after the other, in their order."""

    def __init__(self, new: Sequence[New], now: int, *, borrowed: bool) -> None:
        self._new = new
        self._now = now
        self._borrowed = borrowed
        self._answers: dict[int, ops.Enqueued] = {}  # by place
        self._holders: dict[bytes, bytes] = {}  # unique keys that are taken by now

    def run(self) -> Plan[list[ops.Enqueued]]:
        """Decide about all of them."""
        left = list(self._new)
        while left:
            some, left = self._independent(left)
            yield from self._decide(some)
        return [self._answers[new.place] for new in self._new]

    def _independent(self, left: list[New]) -> tuple[list[New], list[New]]:
        """Those that no earlier one can stand in the way of. One round, unless ids or keys repeat."""
        if len({new.id for new in left}) == len(left) and all(new.key is None for new in left):
            return left, []
        ids: set[bytes] = set()
        keys: set[bytes] = set()
        some: list[New] = []
        later: list[New] = []
        for new in left:
            waits = new.id in ids or (new.key in keys and new.key not in self._holders)
            (later if waits else some).append(new)
            ids.add(new.id)
            if new.key is not None:
                keys.add(new.key)
        return some, later

    def _decide(self, some: list[New]) -> Plan[None]:
        if (yield from self._enter(some)):
            for new in some:
                self._answer(new, "new")
            return
        found = yield from self._find(some)
        returning: list[bytes] = []
        unsure: list[New] = []
        for new in some:
            mine = found.places.get(new.id) == new.place
            if found.has_ended(new.id, self._now):
                self._answer(new, "exists")
                if mine:
                    returning.append(new.id)
            elif mine:
                self._answer(new, "new")
            elif new.id in found.places or new.key is None:
                self._answer(new, "exists")
            else:
                unsure.append(new)
        for ids in steps(returning):
            yield Statement("enqueue.undo", {"ids": ids}, mute=True)
        yield from self._raise_tokens(found)
        yield from self._ask_keys(unsure)

    def _enter(self, some: Sequence[New]) -> Plan[bool]:
        """Insert what may get in; whether it is known already that all of it did."""
        # in one order for all producers, so that they wait for each other and never in a circle
        entering = sorted(
            (new for new in some if new.key not in self._holders), key=lambda new: (new.key or b"", new.id)
        )
        plain = all(new.options == PLAIN for new in entering)
        name = "enqueue.insert_plain" if plain else "enqueue.insert"
        # not asked in a caller's transaction, whose library may count in its own way, nor where ids were given: those
        # are no neighbours
        whole = not self._borrowed and len(entering) == len(some) and not any(new.job.derived for new in some)
        for rows in light_steps([new.row if plain else new.whole_row() for new in entering]):
            yield Statement(name, many=rows, mute=True)
            whole = whole and (yield from _all_entered(rows))
        return whole

    def _answer(self, new: New, status: Any, id: bytes | None = None) -> None:
        self._answers[new.place] = ops.Enqueued(status, new.job.id if id is None else text(id))
        if status != "exists" and new.key is not None:
            self._holders[new.key] = new.id if id is None else id

    def _find(self, some: Sequence[New]) -> Plan[Found]:
        found = Found()
        for ids in steps(sorted(new.id for new in some)):
            for kind, id, first, second in (yield Statement("enqueue.found", {"ids": ids})):
                if kind == 0:
                    found.places[id] = first
                elif kind == 1:
                    found.gone[id] = (first, second)
                else:
                    found.ended.add(id)
        if self._borrowed:  # a derived id may have ended since the snapshot of that transaction
            yield from self._find_newest(sorted(new.id for new in some if new.job.derived), found)
        return found

    @staticmethod
    def _find_newest(derived: Sequence[bytes], found: Found) -> Plan[None]:
        for ids in steps(derived):
            for id, until, token in (yield Statement("enqueue.gone_locked", {"ids": ids})):
                found.gone[id] = (until, token)
            found.ended.update(id for (id,) in (yield Statement("enqueue.ended_locked", {"ids": ids})))

    def _raise_tokens(self, found: Found) -> Plan[None]:
        """An id that is used again goes on where its token stood, also after the clock was set back."""
        rows = [
            {"id": id, "token": raised(token, self._now)}
            for id, (until, token) in found.gone.items()
            if until <= self._now <= token and id in found.places and id not in found.ended
        ]
        if rows:
            yield Statement("enqueue.raise_token", many=rows, mute=True)

    def _ask_keys(self, unsure: Sequence[New]) -> Plan[None]:
        """Those that did not get in, though there is no job under their id: somebody holds the key."""
        holders = yield from find_holders([new.key for new in unsure if new.key not in self._holders])
        for new in unsure:
            holder = self._holders.get(new.key or b"") or holders.get(new.key or b"")
            if holder is None or holder == new.id:
                self._answer(new, "exists")  # under its id, and invisible to an old snapshot
            else:
                self._answer(new, "duplicate", holder)


def _all_entered(rows: Sequence[Row]) -> Plan[bool]:
    """Whether each of these rows got in, and none of their ids has ended: then there is nothing more to look at."""
    ids = [row[0] for row in rows]
    answer = yield Statement("enqueue.entered", {"first": min(ids), "last": max(ids)})
    return bool(answer[0][0] == len(rows) and not answer[0][1])


def find_holders(keys: Sequence[bytes | None]) -> Plan[dict[bytes, bytes]]:
    """Who holds which of these keys. Costs nothing where there are none."""
    holders: dict[bytes, bytes] = {}
    for some in steps(sorted({key for key in keys if key is not None})):
        holders.update((yield Statement("enqueue.holders", {"keys": some})))
    return holders


def draw() -> Plan[int]:
    """A number at the end of the line."""
    yield Statement("enqueue.draw", mute=True)
    rows = yield Statement("enqueue.drawn")
    number: int = rows[0][0]
    return number


def promote(op: ops.Promote, now: int) -> Plan[int]:
    """Make due jobs ready, for those who only count them."""
    names = sorted({raw(queue) for queue in op.queues})
    looks = yield Statement("enqueue.next_due", {"queues": names or [b""]})
    return (yield from promote_from([name for name, turn in looks if turn is not None and turn <= now], now, op.limit))


def promote_from(queues: Iterable[bytes], now: int, limit: int) -> Plan[int]:
    """Make at most `limit` due jobs ready, earliest first, of queues that are known to have some."""
    due: list[tuple[int, int, bytes]] = []
    for queue in queues:
        due += yield Statement("enqueue.due", {"queue": queue, "now": now, "limit": limit})
    due = sorted(due)[:limit]
    if due:
        first = (yield from draw()) * DRAW
        rows = sorted((id, first + n) for n, (_, _, id) in enumerate(due))
        yield Statement("enqueue.promote", many=[{"id": id, "place": place} for id, place in rows], mute=True)
    return len(due)
