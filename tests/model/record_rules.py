"""Rules about once records, and about jobs that are enqueued with the end of another one."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, OnceView, RenewOnce, TakeOnce
from headrace.core.states import TERMINAL, State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE

SCOPE = "task"
KEYS = ("a", "b", "c")
# On Redis a record is of one queue, so each queue has keys of its own here.
LOOKS = [LookOnce(SCOPE, f"{queue} {key}", queue) for queue in ("q1", "q2") for key in KEYS]
LOOKS += [LookOnce("", key) for key in KEYS]

keys = st.sampled_from(KEYS)
prints = st.sampled_from((b"p" * 32, b"p" * 32, b"p" * 32, b"o" * 32))
owners = st.sampled_from(("me", "you"))
leases = st.sampled_from((MICROSECONDS, LEASE))
ends = st.builds(
    dict[str, Any],
    state=st.sampled_from(("done", "done", "failed", "free")),
    result=st.none() | st.binary(max_size=3),
    keep_us=st.sampled_from((MICROSECONDS, 100 * MICROSECONDS, 48 * 3600 * MICROSECONDS)),
)
misses = st.sampled_from((0, 0, 0, 0, 1, -1))  # how far a fence is from the right one
picks = st.integers(0, 30)


class RecordRules(RuleBasedStateMachine):
    """To be part of a comparison, which says what `both` does and what has been claimed."""

    model: Any
    run: Any
    clock: Any
    claims: list[tuple[str, ops.ClaimedJob]]

    def both(self, operation: Any, tidy: Any = None, *, tick_us: int = 1) -> Any:
        raise NotImplementedError

    def records_look_the_same(self, looks: Iterable[LookOnce] = LOOKS) -> None:
        """But for those whose time is over: when they are forgotten is left open."""
        now = self.clock()
        for look in dict.fromkeys(looks):
            seen, expected = (self._there(run(look), now) for run in (self.run, self.model))
            assert seen == expected, look

    @staticmethod
    def _there(view: OnceView | None, now: int) -> OnceView | None:
        return None if view is None or view.until_us <= now else view

    def _picked(self, pick: int) -> ops.ClaimedJob:
        """The newest claims first, so that most still run."""
        return self.claims[-1 - pick % len(self.claims)][1]

    def _runs(self, job: ops.ClaimedJob) -> bool:
        view = self.model(ops.Get(job.id))
        return view is not None and (view.state, view.token) == (State.RUNNING, job.token)

    def _fence(self, look: LookOnce) -> int:
        view = self.model(look)
        return 0 if view is None else view.fence

    def _take(self, claims: list[OnceClaim]) -> list[OnceTaken]:
        taken: list[OnceTaken] = self.both(TakeOnce(tuple(claims)))
        self.records_look_the_same(LookOnce(claim.scope, claim.key, claim.queue) for claim in claims)
        return taken

    @precondition(lambda self: self.claims)
    @rule(wanted=st.lists(st.tuples(picks, keys, prints), min_size=1, max_size=8))
    def jobs_take_records(self, wanted: list[tuple[int, str, bytes]]) -> None:
        """Jobs that run; but one alone may have been taken away from its worker."""
        jobs = [(self._picked(pick), key, fingerprint) for pick, key, fingerprint in wanted]
        running = [each for each in jobs if self._runs(each[0])]
        self._take(
            [
                OnceClaim(SCOPE, f"{job.queue} {key}", fingerprint, job.id, job.token, job.queue)
                for job, key, fingerprint in running or jobs[:1]
            ]
        )

    @rule(
        wanted=st.lists(
            st.tuples(keys, prints, owners, leases), min_size=1, max_size=4, unique_by=lambda each: (each[0], each[2])
        )
    )
    def others_take_records(self, wanted: list[tuple[str, bytes, str, int]]) -> None:
        """Each asks for a key once at a time: which of two leases would count is left open."""
        self._take(
            [OnceClaim("", key, fingerprint, owner, lease_us=lease_us) for key, fingerprint, owner, lease_us in wanted]
        )

    @rule(key=keys, owner=owners, lease_us=leases)
    def renew_a_record(self, key: str, owner: str, lease_us: int) -> None:
        self.both(RenewOnce("", key, owner, lease_us))
        self.records_look_the_same([LookOnce("", key)])

    @rule(key=keys, owner=owners, end=ends, miss=misses)
    def end_a_record(self, key: str, owner: str, end: dict[str, Any], miss: int) -> None:
        fence = self._fence(LookOnce("", key)) + miss
        self.both(EndOnce(owner, ops.OnceEnd("", key, fence, **end)))
        self.records_look_the_same([LookOnce("", key)])

    @precondition(lambda self: self.claims)
    @rule(ended=st.lists(st.tuples(picks, keys, ends, misses), min_size=1, max_size=6), keep_us=st.sampled_from((0, 5)))
    def settle_with_records(self, ended: list[tuple[int, str, dict[str, Any], int]], keep_us: int) -> None:
        """Each with a record that it may have or not."""
        outcomes, looks = [], []
        for pick, key, end, miss in ended:
            job = self._picked(pick)
            looks.append(LookOnce(SCOPE, f"{job.queue} {key}", job.queue))
            once = ops.OnceEnd(SCOPE, looks[-1].key, self._fence(looks[-1]) + miss, **end)
            state = State.FAILED if once.state == "failed" else State.SUCCEEDED
            outcomes.append(ops.Outcome(job.id, job.queue, job.token, state, keep_us=keep_us, once=once))
        self.both(ops.Settle("w1", tuple(outcomes)))
        self.records_look_the_same(looks)

    @precondition(lambda self: self.claims)
    @rule(pick=picks, key=keys, end=ends)
    def take_and_end(self, pick: int, key: str, end: dict[str, Any]) -> None:
        """As a worker does."""
        job = self._picked(pick)
        name = f"{job.queue} {key}"
        (taken,) = self._take([OnceClaim(SCOPE, name, b"p" * 32, job.id, job.token, job.queue)])
        if taken.status == "mine":
            once = ops.OnceEnd(SCOPE, name, taken.fence, **end)
            self.both(ops.Settle("w1", (ops.Outcome(job.id, job.queue, job.token, State.SUCCEEDED, once=once),)))
            self.records_look_the_same([LookOnce(SCOPE, name, job.queue)])

    def settle_with_followers(self, pick: int, state: State, followers: tuple[ops.NewJob, ...]) -> None:
        """One at a time, with no due job: what others of a settle free is left open, and so is a promotion."""
        job = self._picked(pick)
        followers = tuple(each for each in followers if each.queue == job.queue)
        self.both(ops.Promote((job.queue,)))
        outcome = ops.Outcome(job.id, job.queue, job.token, state, MICROSECONDS, then=followers)
        answer = self.both(ops.Settle("w1", (outcome,)), tick_us=0)
        assert answer == [True] or state not in TERMINAL or not self._runs(job)
