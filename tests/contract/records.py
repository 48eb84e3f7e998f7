"""Once records of the world: one in every situation, and every operation upon them."""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, RenewOnce, TakeOnce
from headrace.core.states import State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance import Harness
from headrace.testing.conformance.harness import LEASE, job, outcome

SCOPE = "task"
PRINT, OTHER_PRINT = b"p" * 32, b"o" * 32
DAY_US = 24 * 3600 * MICROSECONDS
OVER_US = 25 * MICROSECONDS  # over when the world is complete

# Keys, most of them called like the job that has or had the record.
OF_JOBS = {"gone": "q1", "failed": "q1", "kept": "q1", "dead": "q1", "run": "q1", "run2": "q1", "parked": "q1"} | {
    "lost2": "q2",
    "new": "q1",
    "new2": "q2",
}
OF_LEASES = ("mine", "late", "free", "new")
LOOKS = {
    **{key: LookOnce(SCOPE, key, queue) for key, queue in OF_JOBS.items()},
    **{f"lease {key}": LookOnce("", key) for key in OF_LEASES},
}

# What ends together, of "settle with once and then": jobs by their ids, and records by their names.
TOGETHER = (
    (("run",), ("run",)),
    (("run3", "then", "then2"), ()),
    (("lost2", "then4"), ("lost2",)),
)

Claims = Mapping[str, ops.ClaimedJob]


def of_job(claimed: ops.ClaimedJob, key: str, fingerprint: bytes = PRINT) -> OnceClaim:
    """What a job asks for."""
    return OnceClaim(SCOPE, key, fingerprint, claimed.id, claimed.token, claimed.queue)


def of_lease(owner: str, key: str) -> OnceClaim:
    """What others ask for."""
    return OnceClaim("", key, PRINT, owner, lease_us=LEASE)


def take(h: Harness, claim: OnceClaim) -> int:
    """Take what must be free; its fence."""
    (taken,) = h.run(TakeOnce((claim,)))
    assert taken == OnceTaken("mine", taken.fence)
    return taken.fence


def fence_of(h: Harness, name: str) -> int:
    """Of a record that is there."""
    view = h.run(LOOKS[name])
    assert view is not None
    return view.fence


def end_of(key: str, fence: int, state: Any = "done", *, scope: str = SCOPE, keep_us: int = DAY_US) -> ops.OnceEnd:
    """How it ends."""
    return ops.OnceEnd(scope, key, fence, state, None if state == "free" else b'"result"', keep_us)


def operations(h: Harness, claims: Claims) -> Iterator[tuple[str, ops.Operation[object]]]:
    """Named instances; each class of operation at least once."""
    yield "take once records", TakeOnce(tuple(_wishes(claims)))
    yield "take once records by lease", TakeOnce(tuple(of_lease("me", key) for key in ("mine", "late", "free", "new")))
    yield "take once records of others", TakeOnce(tuple(of_lease("you", key) for key in OF_LEASES[::-1]))
    yield "renew a once record", RenewOnce("", "mine", "me", 2 * LEASE)
    yield "renew a once record that is over", RenewOnce("", "late", "late", LEASE)
    mine = fence_of(h, "lease mine")
    yield "end a once record", EndOnce("me", end_of("mine", mine, scope=""))
    yield "end a once record of others", EndOnce("you", end_of("mine", mine, scope=""))
    yield "give a once record back", EndOnce("me", end_of("mine", mine, "free", scope=""))
    yield "look at a once record", LOOKS["run"]
    yield "settle with once and then", ops.Settle("alive", tuple(_endings(h, claims)))


def _wishes(claims: Claims) -> Iterator[OnceClaim]:
    run, run2, run3, lost = (claims[id] for id in ("run", "run2", "run3", "lost"))
    yield of_job(run, "run")  # once more
    yield of_job(run2, "new")
    yield of_job(lost, "new")
    yield of_job(lost, "new", OTHER_PRINT)
    for key in ("gone", "failed", "kept", "dead", "run", "parked"):
        yield of_job(run2, key)
    yield of_job(run2, "gone", OTHER_PRINT)
    yield of_job(run3, "new2")


def _endings(h: Harness, claims: Claims) -> Iterator[ops.Outcome]:
    """Two have lost their record or never had it."""
    run, run2, run3, lost, lost2 = (claims[id] for id in ("run", "run2", "run3", "lost", "lost2"))
    yield outcome(run, State.SUCCEEDED, once=end_of("run", fence_of(h, "run")))
    yield outcome(run2, State.SUCCEEDED, once=end_of("run2", fence_of(h, "run2") - 1), then=(job("then", "q1"),))
    yield outcome(lost, State.SUCCEEDED, once=end_of("run", fence_of(h, "run")))
    follow = (job("then", "q2", unique="k-then"), job("ready2", "q2"), job("then2", "q2", delay_us=5))
    yield outcome(run3, State.SUCCEEDED, then=follow)
    yield outcome(
        lost2,
        State.FAILED,
        once=end_of("lost2", fence_of(h, "lost2"), "failed"),
        then=(job("then3", "q2", unique="k-ready2"), job("then4", "q2", unique="k-then4")),
    )
