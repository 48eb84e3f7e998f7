"""What a replay promises: it leaves nothing out, makes each job ready once, and goes on only after good canaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.core import operations as ops
from headrace.core.registers import Amend
from headrace.core.replays import REGISTERS, ReplayRun
from headrace.core.states import State
from headrace.testing.entries import Entry


class ReplayWatch:
    """What replays have done, by the answers of the store. `jobs`: the ledger's entries."""

    def __init__(self, broken: Callable[[str, str, str], None], jobs: Mapping[str, Entry]) -> None:
        self._broken = broken
        self._jobs = jobs
        self.runs: dict[str, ReplayRun] = {}
        self._started_s: dict[str, float] = {}
        self.replayed = 0  # jobs that replays have made ready
        self._skipped: dict[int, set[str]] = {}  # `before_us` -> jobs that were refused
        self._tried: dict[int, set[str]] = {}  # and those that were asked for

    def asked(self, op: ops.Replay, answer: ops.Replayed) -> None:
        """One operation of a replay, before the ledger has taken note of it."""
        if op.before_us == ops.FAR_US:  # of an operator who names jobs
            return
        self.replayed += len(answer.replayed)
        self._skipped.setdefault(op.before_us, set()).update(answer.skipped)
        self._tried.setdefault(op.before_us, set()).update(op.ids)
        for id in answer.replayed:
            entry = self._jobs.get(id)
            if entry is not None and entry.ended_us >= op.before_us:
                self._broken("replay", id, "was made ready again, and had failed since its replay was started")

    def amended(self, operation: Amend, answers: list[Any], now_s: float) -> None:
        """Changes of registers, which have just taken place."""
        for change, answer in zip(operation.changes, answers, strict=True):
            if not change.register.startswith(REGISTERS) or answer.run is None:
                continue
            now: ReplayRun = answer.run
            was = self.runs.get(now.id)
            self.runs[now.id] = now
            self._started_s.setdefault(now.id, now_s)
            if was is None or was.phase == now.phase:
                continue
            if was.ended:
                self._broken("replay", "", f"{now.id} was {was.phase}, and is {now.phase}")
            if was.phase == "canaries" and now.phase in ("running", "done"):
                self._check_canaries(now)
            if now.phase == "done":
                self._check_left(now)

    def _check_canaries(self, run: ReplayRun) -> None:
        """All that it has made ready have ended, and none of them has failed."""
        skipped = self._skipped.get(run.started_us + 1, set())
        for canary in run.canaries or ():
            entry = self._jobs[canary.id]
            if entry.live:
                self._broken("canary", canary.id, f"is {entry.state.value}, and its replay goes on to all others")
            elif entry.state is State.FAILED and canary.id not in skipped:
                self._broken("canary", canary.id, "has failed, and its replay goes on to all others")

    def _check_left(self, run: ReplayRun) -> None:
        """Whatever had failed by its start has been tried; what is still failed was refused, or fails at once."""
        tried = self._tried.get(run.started_us + 1, set())
        for id, entry in self._jobs.items():
            # by both clocks: what fails when the store's has been set back seems to have failed before the start
            before = entry.ended_us <= run.started_us and entry.ended_s <= self._started_s[run.id]
            if entry.state is State.FAILED and before and id not in tried:
                self._broken("replay", id, f"was left out by {run.id}, which is done")

    @property
    def open(self) -> list[str]:
        """Replays that have not ended."""
        return [run.id for run in self.runs.values() if not run.ended]
