"""Watches every operation as it takes place in a store and says at once when one breaks a promise.

It knows no store and asks none: what it expects follows from the operations and their answers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.parking import Unpark
from headrace.core.registers import Amend
from headrace.core.retry import Retry
from headrace.core.states import LIVE, TERMINAL, State
from headrace.core.trail import Trail
from headrace.testing.circuits import CircuitWatch
from headrace.testing.entries import Entry, Violation
from headrace.testing.judging import COSTLESS, counts_of, unlike_its_run, wrong_counts
from headrace.testing.replays import ReplayWatch
from headrace.testing.runs import Runs


class Ledger:
    """The expected state of every job. `violations` stays empty as long as all promises are kept.

    `now_us` is the store's clock, `now_s` the loop's; `policies` maps task names to retry policies; `gone_dark` says of
    a worker whether it has good reason to be taken for dead (killed, frozen, cut off).
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        now_s: Callable[[], float],
        policies: Mapping[str, Retry],
        runs: Runs,
        gone_dark: Callable[[str], bool] = lambda worker: True,
    ) -> None:
        self._now_us = now_us
        self._now_s = now_s
        self._policies = policies
        self._runs = runs
        self._gone_dark = gone_dark
        self.jobs: dict[str, Entry] = {}
        self.followers: set[str] = set()  # those that were enqueued with the end of another
        self.circuit = CircuitWatch(self.broken)
        self.replays = ReplayWatch(self.broken, self.jobs)
        self.leases: dict[str, int] = {}
        self._given_back: dict[str, int] = {}  # reason -> parked jobs that are ready again and were not claimed yet
        self.violations: list[Violation] = []
        self.slack_us = 0  # how far the store's clock has been set back: what was due then may be claimed

    def broken(self, rule: str, job: str, text: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(self._now_s(), rule, job, text))

    def happened(self, operation: ops.Operation[Any], answer: Any) -> None:
        """Hold one operation, which has just taken place, against what is known."""
        check = getattr(self, "_" + type(operation).__name__.lower(), None)
        if check is not None:
            check(operation, answer, self._now_us())

    def live(self) -> list[Entry]:
        """Jobs that have not ended."""
        return [entry for entry in self.jobs.values() if entry.live]

    def held_by(self, worker: str) -> list[Entry]:
        """Jobs that run under a worker's lease."""
        return [entry for entry in self.jobs.values() if entry.state is State.RUNNING and entry.worker == worker]

    def retry_of(self, entry: Entry) -> Retry:
        """The policy that bounds it."""
        return self._policies.get(entry.new.task, Retry())

    # -- producers

    def _enqueue(self, op: ops.Enqueue, answers: list[ops.Enqueued], now: int) -> None:
        for new, answer in zip(op.jobs, answers, strict=True):
            if answer.status == "new":
                self._stored(new, now)
            elif answer.status == "exists":
                if new.id not in self.jobs:
                    self.broken("nothing lost", new.id, "is said to exist and was never stored")
            elif not self._holds(answer.id, new):
                self.broken("unique key", new.id, f"is said to be a duplicate of {answer.id}, which holds no such key")

    def _stored(self, new: ops.NewJob, now: int) -> None:
        if new.id in self.jobs:
            self.broken("enqueued once", new.id, "was stored a second time")
        holders = [id for id in self.jobs if id != new.id and self._holds(id, new)]
        if holders:
            self.broken("unique key", new.id, f"was stored although {holders[0]} holds the key {new.unique!r}")
        due = new.due_us if new.due_us is not None else now + new.delay_us
        state = State.READY if due <= now else State.SCHEDULED
        self.jobs[new.id] = Entry(new, state, due, holds_key=new.unique is not None)

    def _holds(self, id: str, new: ops.NewJob) -> bool:
        """Whether job `id` holds the unique key of `new`."""
        entry = self.jobs.get(id)
        if entry is None or new.unique is None or not (entry.live and entry.holds_key):
            return False
        return (entry.new.queue, entry.new.unique) == (new.queue, new.unique)

    # -- workers

    def _claim(self, op: ops.Claim, answer: ops.Claimed, now: int) -> None:
        self._seen(op.worker, now + op.lease_us)
        taken = 0
        for job in answer.jobs:
            entry = self.jobs.get(job.id)
            if entry is None:
                self.broken("nothing from nowhere", job.id, "was claimed and never stored")
            elif entry.state is not State.RUNNING or job.token != entry.token:
                self._check_claim(op, job, entry, now)
                taken += 1
                entry.state, entry.worker, entry.claim = State.RUNNING, op.worker, op.number
                entry.token = job.token
                entry.holds_key = entry.holds_key and entry.new.unique_until == "end"
                self._runs.claimed(job.id, job.token, op.worker)
            elif (entry.worker, entry.claim) != (op.worker, op.number):
                self.broken("one live lease", job.id, f"{entry.worker} holds it, and {op.worker} has claimed it too")

        if taken > op.limit:
            self.broken("limit", "", f"{op.worker} asked for {op.limit} jobs and got {taken}")

    def _check_claim(self, op: ops.Claim, job: ops.ClaimedJob, entry: Entry, now: int) -> None:
        if entry.state is State.RUNNING:
            self.broken("one live lease", job.id, f"{entry.worker} holds it, and {op.worker} has claimed it too")
        if entry.state is State.PARKED:
            left = self._given_back[entry.reason] = self._given_back.get(entry.reason, 0) - 1
            if left < 0:
                self.broken("parked", job.id, f"was claimed while it was parked: {entry.reason}")
        if entry.state in TERMINAL:
            self.broken("ends once", job.id, f"was claimed after it had ended as {entry.state.value}")
        if job.token <= entry.token:
            self.broken("tokens grow", job.id, f"token {job.token} follows {entry.token}")
        if entry.due_us > now + self.slack_us:
            self.broken("due", job.id, f"was claimed {(entry.due_us - now) / 1e6:.3f} s before it was due")
        if job.body != entry.new.body or job.queue != entry.new.queue or job.queue not in op.queues:
            self.broken("nothing from nowhere", job.id, "came back with another body or from another queue")
        if counts_of(trail.decode(job.trail)) != counts_of(entry.counts):
            self.broken("counts", job.id, f"came with {trail.decode(job.trail)}, not {entry.counts}")

    def _seen(self, worker: str, until: int) -> None:
        self.leases[worker] = until

    def _settle(self, op: ops.Settle, answers: list[bool], now: int) -> None:
        for outcome, taken in zip(op.outcomes, answers, strict=True):
            entry = self.jobs.get(outcome.id)
            valid = entry is not None and entry.state is State.RUNNING and entry.token == outcome.token
            if taken and not valid:
                self.broken(
                    "stale token",
                    outcome.id,
                    f"{op.worker} settled it with token {outcome.token}, held by "
                    f"{entry.worker or 'nobody' if entry else 'nobody'}",
                )
            elif valid and not taken:
                self.broken("live lease", outcome.id, f"{op.worker} holds it and was refused")
            if taken and entry is not None:
                self._check_outcome(op.worker, outcome, entry)
                self._apply(entry, outcome, now)
                for new in outcome.then if outcome.state in TERMINAL else ():
                    self._follows(new, now)

    def _follows(self, new: ops.NewJob, now: int) -> None:
        """Enqueued with the end of another; passed over in silence where it exists or its key is held."""
        if new.id not in self.jobs and not any(self._holds(id, new) for id in self.jobs):
            self._stored(new, now)
            self.followers.add(new.id)

    def _check_outcome(self, worker: str, outcome: ops.Outcome, entry: Entry) -> None:
        before, after = entry.counts, self._after(outcome, entry)
        run = self._runs.of(outcome.id, outcome.token)
        problem = (
            wrong_counts(before, after, outcome)
            or unlike_its_run(before, after, outcome, run, cancel=entry.cancel)
            or self._beyond_policy(after, outcome, entry)
        )
        if problem:
            self.broken(
                "outcome", outcome.id, f"{worker} settled it as {outcome.state.value} ({outcome.reason}): {problem}"
            )

    def _after(self, outcome: ops.Outcome, entry: Entry) -> Trail:
        return entry.counts if outcome.trail is None else trail.decode(outcome.trail)

    def _beyond_policy(self, after: Trail, outcome: ops.Outcome, entry: Entry) -> str:
        retry = self.retry_of(entry)
        for name, count, most in (
            ("attempts", after.attempts, retry.max_attempts),
            ("errors", after.errors, retry.max_errors),
        ):
            if most is not None and (
                count > most or (count == most and outcome.state is State.SCHEDULED and outcome.reason not in COSTLESS)
            ):
                return f"{count} {name} of {most}"
        if outcome.state is State.FAILED and outcome.reason == "crashed":
            return self._wrongly_convicted(after, retry, entry)
        return ""

    def _wrongly_convicted(self, after: Trail, retry: Retry, entry: Entry) -> str:
        worker, alone = entry.last_rescue
        if after.crashes < retry.max_crashes or not alone:
            return f"convicted after {after.crashes} crashes of {retry.max_crashes}, the last one alone: {alone}"
        culprit = self._runs.killer_of(worker)
        return f"convicted for what {culprit} did to {worker}" if culprit not in (None, entry.new.id) else ""

    def _apply(self, entry: Entry, outcome: ops.Outcome, now: int) -> None:
        state = State.CANCELLED if entry.cancel and outcome.state in LIVE else outcome.state
        entry.counts = self._after(outcome, entry)
        entry.reason = outcome.reason
        self._move(entry, state, now + outcome.delay_us)

    def _move(self, entry: Entry, state: State, due_us: int) -> None:
        entry.state, entry.worker, entry.claim = state, "", 0
        if state is State.SCHEDULED:
            entry.due_us = due_us
        if state in TERMINAL:
            entry.ends += 1
            entry.ended_us, entry.ended_s = self._now_us(), self._now_s()
            entry.holds_key = entry.cancel = False
            if entry.ends > entry.replays + 1:
                self.broken("ends once", entry.new.id, f"ended {entry.ends} times with {entry.replays} replays")

    def _beat(self, op: ops.Beat, answer: ops.Beaten, now: int) -> None:
        self._seen(op.worker, now + op.lease_us)
        lost = {held for held in op.held if not self._has(op.worker, held)}
        if set(answer.lost) != lost:
            self.broken("live lease", "", f"{op.worker} lost {sorted(held.id for held in lost)}, told {answer.lost}")
        known = {held.id for held in op.held}
        forgotten = [
            entry for entry in self.held_by(op.worker) if entry.new.id not in known and entry.claim < op.open_claim
        ]
        if len(forgotten) != answer.released:
            self.broken("lost claim reply", "", f"{op.worker}: {answer.released} released, not {len(forgotten)}")
        for entry in forgotten:
            if self._runs.of(entry.new.id, entry.token) is not None:
                self.broken("lost claim reply", entry.new.id, f"was given back for {op.worker}, which runs it")
        self._release(forgotten, now)

    def _has(self, worker: str, held: ops.Held) -> bool:
        entry = self.jobs.get(held.id)
        return entry is not None and (entry.state, entry.worker, entry.token) == (State.RUNNING, worker, held.token)

    def _leave(self, op: ops.Leave, answer: int, now: int) -> None:
        held = self.held_by(op.worker)
        if len(held) != answer:
            self.broken("no orphan", "", f"{op.worker} left {len(held)} jobs behind, {answer} were given back")
        self._release(held, now)
        self.leases.pop(op.worker, None)

    def _release(self, entries: list[Entry], now: int) -> None:
        for entry in entries:
            entry.counts = msgspec.structs.replace(entry.counts, releases=entry.counts.releases + 1)
            self._move(entry, State.CANCELLED if entry.cancel else State.READY, now)

    def _rescue(self, op: ops.Rescue, answer: ops.Rescued, now: int) -> None:
        if op.not_after_us is not None and now > op.not_after_us:
            if answer.jobs:
                self.broken("rescue", "", "the store's clock had jumped, and the living were taken for dead")
            return
        held = {orphan.worker: len(self.held_by(orphan.worker)) for orphan in answer.jobs}
        for orphan in answer.jobs:
            entry = self.jobs.get(orphan.id)
            if entry is None or entry.state is not State.RUNNING or entry.token != orphan.token:
                self.broken("rescue", orphan.id, "was rescued and nobody held it")
                continue
            self._check_rescue(orphan, entry, held[orphan.worker], now)
            crashes = entry.counts.crashes + 1
            entry.counts = msgspec.structs.replace(entry.counts, crashes=crashes, alone=orphan.alone)
            entry.last_rescue = (orphan.worker, orphan.alone)
            self._move(entry, State.CANCELLED if entry.cancel else State.READY, now)
        for worker in [name for name, until in self.leases.items() if until <= now and not self.held_by(name)]:
            del self.leases[worker]

    def _check_rescue(self, orphan: ops.Orphan, entry: Entry, held: int, now: int) -> None:
        left = self.leases.get(orphan.worker, 0) - now
        if orphan.worker != entry.worker or left > 0:
            self.broken(
                "rescue", orphan.id, f"was taken from {orphan.worker}, whose lease lives {left / 1e6:.3f} s more"
            )
        elif not self._gone_dark(orphan.worker):
            self.broken("rescue", orphan.id, f"was taken from {orphan.worker}, which lives: an outage is no crash")
        if orphan.alone != (held == 1):
            self.broken("rescue", orphan.id, f"alone is {orphan.alone}, and {orphan.worker} held {held} jobs")

    # -- circuits and other registers

    def _amend(self, op: Amend, answers: list[Any], now: int) -> None:
        self.circuit.amended(op, answers, self._now_s())
        self.replays.amended(op, answers, self._now_s())

    def _unpark(self, op: Unpark, answer: int, now: int) -> None:
        parked = sum(
            entry.state is State.PARKED and entry.reason == op.reason and entry.new.queue in op.queues
            for entry in self.jobs.values()
        )
        if answer > min(op.limit, parked):
            self.broken("parked", "", f"{answer} jobs were given back of {parked} and at most {op.limit}: {op.reason}")
        self._given_back[op.reason] = self._given_back.get(op.reason, 0) + answer

    # -- operators

    def _cancel(self, op: ops.Cancel, answer: str, now: int) -> None:
        entry = self.jobs.get(op.id)
        expected = {"absent"} if entry is None else self._cancelled(entry, now)
        if answer not in expected:
            self.broken("cancel", op.id, f"answered {answer!r}, not {' or '.join(sorted(expected))!r}")

    def _cancelled(self, entry: Entry, now: int) -> set[str]:
        if not entry.live:
            return {"finished", "absent"}
        if entry.state is State.RUNNING:
            entry.cancel = True
            return {"requested"}
        entry.reason = "cancelled"
        self._move(entry, State.CANCELLED, now)
        return {"cancelled"}

    def _replay(self, op: ops.Replay, answer: ops.Replayed, now: int) -> None:
        self.replays.asked(op, answer)
        for id in answer.replayed:
            entry = self.jobs.get(id)
            if entry is None or entry.state is not State.FAILED:
                self.broken("replay", id, "was replayed and had not failed")
                continue
            holders = [other for other in self.jobs if other != id and self._holds(other, entry.new)]
            if holders:
                self.broken("unique key", id, f"was replayed although {holders[0]} holds the key")
            entry.replays += 1
            entry.counts = Trail(replays=entry.counts.replays + 1)
            entry.state, entry.due_us, entry.reason = State.READY, now, ""
            entry.holds_key = entry.new.unique is not None
