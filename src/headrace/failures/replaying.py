"""How a replay of many failed jobs goes on, as generators that yield operations; see `replays` and `core/replays`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.moments import aware
from headrace.core.registers import Amend, Change, LookRegisters, RegisterView
from headrace.core.replays import (
    REGISTERS,
    Canary,
    CancelReplay,
    Phase,
    ReplayRun,
    Standing,
    StartReplay,
    StepReplay,
    TakeReplay,
    decode,
)
from headrace.core.states import State
from headrace.errors import RepairError
from headrace.failures.repairs import collect
from headrace.inquiries import PAGE, Inquiry, Pause, Progress, registers

LOOK_S = 0.5  # between two looks at the canaries
CALL_S = 2.0  # at most so long a driver that has a pace is silent
SECOND = 1_000_000
UNDER_WAY = frozenset(f"is {state.value}" for state in State if state is not State.FAILED)  # why a job was skipped


def ask(change: Change) -> Inquiry[Standing]:
    """One change of one replay."""
    (standing,) = yield Amend((change,))
    found: Standing = standing
    return found


def newest(left: dict[str | None, list[str]], count: int) -> tuple[Canary, ...]:
    """The newest of each queue in turn, so many in all."""
    rows = zip_longest(*([Canary(id, queue) for id in ids[:count]] for queue, ids in left.items()))
    return tuple(canary for row in rows for canary in row if canary is not None)[:count]


def _absent(id: str) -> RepairError:
    return RepairError(f"there is no replay {id}: it is over for 30 days, or was none of this store")


def start(run: ReplayRun) -> Inquiry[ReplayRun]:
    """Note a new replay."""
    standing = yield from ask(StartReplay(register=REGISTERS + run.id, run=run))
    if standing.run is None:
        raise _absent(run.id)
    return standing.run


def look(id: str) -> Inquiry[ReplayRun]:
    """One replay."""
    views: list[RegisterView] = yield LookRegisters(REGISTERS + id, 1)
    run = decode(views[0].body) if views and views[0].name == REGISTERS + id else None
    if run is None:
        raise _absent(id)
    return run


def look_all() -> Inquiry[list[ReplayRun]]:
    """All replays that are remembered, the newest first."""
    views = yield from registers(REGISTERS)
    found = [run for view in views if (run := decode(view.body)) is not None]
    return sorted(found, key=lambda run: (run.started_us, run.id), reverse=True)


def cancel(id: str, by: str) -> Inquiry[ReplayRun]:
    """End it where it is."""
    standing = yield from ask(CancelReplay(register=REGISTERS + id, by=by))
    if standing.run is None:
        raise _absent(id)
    return standing.run


class _Over(Exception):
    """It has been ended or taken by somebody else."""


class Driving:
    """One driver at one replay: generators that yield operations."""

    def __init__(self, id: str, driver: str, progress: Progress | None) -> None:
        self._register = REGISTERS + id
        self._id = id
        self._driver = driver
        self._progress = progress
        self._run = ReplayRun(id=id)
        self._now_us = 0
        self._skips: dict[str, str] = {}

    def drive(self) -> Inquiry[ReplayRun]:
        """Until it has ended, by itself or by somebody else.

        Raises:
            RepairError: there is no such replay, or somebody else is at it.
        """
        standing = yield from ask(TakeReplay(register=self._register, driver=self._driver))
        if standing.run is None:
            raise _absent(self._id)
        self._heard(standing)
        if self._run.ended:
            return self._run
        self._check_driver()
        try:
            yield from self._canaries_and_all()
        except _Over:
            self._check_driver()
        return self._run

    def _heard(self, standing: Standing) -> None:
        assert standing.run is not None
        self._run, self._now_us = standing.run, standing.now_us
        self._skips = dict(standing.run.skips)

    def _check_driver(self) -> None:
        run = self._run
        if not run.ended and run.driver != self._driver:
            left_s = max(0.0, (run.lease_until_us - self._now_us) / SECOND)
            raise RepairError(
                f"replay {run.id} is in the hands of {run.driver}, who is heard of every few seconds: "
                f"should that one have died, it is free in {left_s:.0f} s"
            )

    def _step(self, **changes: Any) -> Inquiry[None]:
        """Note how far it is."""
        run = self._run
        fields = {name: getattr(run, name) for name in ("phase", "why", "total", "replayed", "skipped", "canaries")}
        fields |= {"skips": self._skips, **changes}
        standing = yield from ask(StepReplay(register=self._register, driver=self._driver, **fields))
        if standing.run is None:  # somebody has deleted it
            raise _absent(self._id)
        wanted: Phase = fields["phase"]
        self._heard(standing)
        if self._progress is not None:
            self._progress(self._run.replayed + self._run.skipped, self._run.total or 0)
        if self._run.driver != self._driver and not (self._run.ended and self._run.phase == wanted):
            raise _Over

    def _canaries_and_all(self) -> Inquiry[None]:
        left = yield from self._left()
        run = self._run
        done = run.replayed + run.skipped
        yield from self._step(total=done + sum(map(len, left.values())))
        if self._run.phase == "canaries":
            yield from self._try_canaries(left)
        if not self._run.ended:
            yield from self._all(left)

    def _left(self) -> Inquiry[dict[str | None, list[str]]]:
        """Ids that are still to be replayed, by queue."""
        run = self._run
        if run.ids is not None:
            return {None: list(run.ids[run.replayed + run.skipped :])}
        end = aware(run.started_us + 1)
        until = end if run.where.until is None else min(end, run.where.until)
        return (yield from collect(replace(run.where, until=until), self._step))

    # -- canaries

    def _try_canaries(self, left: dict[str | None, list[str]]) -> Inquiry[None]:
        if self._run.canaries is None:
            yield from self._step(canaries=newest(left, self._run.canary))
        canaries = self._run.canaries or ()
        waiting: list[Canary] = []
        for canary in canaries:
            ids, replayed = left.get(canary.queue, []), True
            if canary.id in ids:  # else an earlier driver has replayed it
                ids.remove(canary.id)
                answer = yield from self._replay([canary.id], canary.queue)
                # one that is not failed any more was replayed by somebody: by this driver, where its answer was lost
                replayed = answer.skipped.get(canary.id, "is ready") in UNDER_WAY
            waiting += [canary] if replayed else []
        if canaries and not waiting:
            yield from self._step(phase="stopped", why="no canary could be replayed, so nothing is known")
            return
        yield from self._wait_for(waiting)

    def _wait_for(self, waiting: list[Canary]) -> Inquiry[None]:
        while waiting:
            for canary in list(waiting):
                said = yield from self._verdict(canary)
                if said:
                    yield from self._step(phase="stopped", why=f"canary {canary.id} {said}")
                    return
                if said is not None:
                    waiting.remove(canary)
            if waiting:
                yield Pause(LOOK_S)
                yield from self._step()
        yield from self._step(phase="running")

    def _verdict(self, canary: Canary) -> Inquiry[str | None]:
        """What went wrong; empty: nothing; None: that is not known yet."""
        view: ops.JobView | None = yield ops.Get(canary.id, canary.queue)
        if view is None or view.state in (State.SUCCEEDED, State.CANCELLED):
            return ""
        if view.state is State.EXPIRED:
            return "expired before a worker came to it"
        remembered = trail.decode(view.trail)
        if view.state is State.FAILED or remembered.attempts or remembered.crashes:
            last = remembered.history[-1] if remembered.history else None
            return f"failed: {last.type}: {last.message}" if last else f"failed: {view.reason}"
        return None

    # -- the rest

    def _all(self, left: dict[str | None, list[str]]) -> Inquiry[None]:
        rate = self._run.rate
        size = PAGE if rate is None else max(1, min(PAGE, math.floor(rate)))
        began_us, done = self._now_us, 0
        for queue, ids in left.items():
            for start in range(0, len(ids), size):
                some = ids[start : start + size]
                if rate is not None:
                    yield from self._wait_until(began_us + round(done / rate * SECOND))
                yield from self._replay(some, queue)
                done += len(some)
        yield from self._step(phase="done")

    def _wait_until(self, due_us: int) -> Inquiry[None]:
        """The pace is that of the store's clock; its driver says often that it lives, and hears of an end."""
        while (left_us := due_us - self._now_us) > 0:
            yield Pause(min(left_us / SECOND, CALL_S))
            yield from self._step()

    def _replay(self, ids: Sequence[str], queue: str | None) -> Inquiry[ops.Replayed]:
        """Only those that failed before the replay was started."""
        answer: ops.Replayed = yield ops.Replay(tuple(ids), queue, self._run.started_us + 1)
        run = self._run
        self._skips |= answer.skipped
        yield from self._step(replayed=run.replayed + len(answer.replayed), skipped=run.skipped + len(answer.skipped))
        return answer
