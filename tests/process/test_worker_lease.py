"""Leases of the living: renewed whatever the handler does, and of no effect once they are lost."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from headrace import ConfigError, Headrace
from tests.process.workers import Crew
from tests.proxy import Proxy


def renewed(crew: Crew, seconds: float) -> list[int]:
    """Watch until every lease has been renewed for so long; the lease ends of whoever holds jobs, in microseconds."""
    ends: set[int] = set()
    until = max(worker.lease_until_us for worker in crew.app.jobs.workers()) + round(seconds * 1_000_000)

    def look() -> bool:
        workers = crew.app.jobs.workers()
        ends.update(worker.lease_until_us for worker in workers if worker.held)
        return min(worker.lease_until_us for worker in workers) > until

    crew.watch(look, f"{seconds} s of heartbeats")
    return sorted(ends)


def test_a_living_worker_keeps_its_job(store_url: str, crew_on: Callable[..., Crew]) -> None:
    """B012, B039: three workers that sweep, one attempt allowed, a run of three leases: one start and no failure."""
    crew = crew_on(store_url, lease=3.0, heartbeat=0.75)
    for _ in range(3):
        crew.start()
    ids = [task.enqueue(gate="go").id for task in (crew.tasks.hold_once, crew.tasks.hold_thread)]
    crew.wait_for("start", 2)
    renewed(crew, 9)
    crew.scene.open("go")
    jobs = [crew.wait_for_state(id, "succeeded") for id in ids]
    assert [crew.starts(id) for id in ids] == [1, 1]
    assert all(job.counts["crashes"] == job.counts["errors"] == 0 and not job.history for job in jobs)


def test_two_beats_may_be_lost_before_a_lease_is(redis_url: str, crew_on: Callable[..., Crew]) -> None:
    """B042: seen from outside, the lease is renewed more than twice while it lasts, and never runs out."""
    crew = crew_on(redis_url, lease=4.0, heartbeat=1.0)
    crew.start()
    id = crew.tasks.hold.enqueue(gate="go").id
    crew.wait_for("start")
    ends = renewed(crew, 8)
    gaps = sorted((after - before) / 1_000_000 for before, after in pairwise(ends))
    # the usual one: a machine that stands still now and then must not make this red
    assert gaps[len(gaps) // 2] < 4.0 / 2
    assert gaps[-1] < 4.0
    assert crew.starts(id) == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"lease": 3, "heartbeat": 3}, "heartbeat"),
        ({"lease": 3, "heartbeat": 1.5}, "heartbeat"),
        ({"lease": 0.5}, "lease"),
        ({"lease": 6, "busy_timeout": 5}, "busy_timeout"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, float], named: str) -> None:
    """B039, B042: before any worker starts, naming the field and the fix."""
    with pytest.raises(ConfigError, match=named):
        Headrace("sqlite:///never-made.db", **settings)  # type: ignore[arg-type]


def test_blocking_the_loop_does_not_cost_the_lease(both: Crew) -> None:
    """B040: an async handler blocks its event loop for more than two leases; the idle worker beside gets nothing."""
    both.start()
    both.start()
    id = both.tasks.block_loop.enqueue(gate="go").id
    both.wait_for("start", job=id)
    renewed(both, 5)
    both.scene.open("go")
    job = both.wait_for_state(id, "succeeded")
    assert (both.starts(id), job.counts["crashes"]) == (1, 0)


def test_a_completion_after_the_lease_is_rejected(both: Crew) -> None:
    """B040: the renewal stops by force while the loop is blocked; the second run counts, the first is told so."""
    lost = both.start(faults="no-beat")
    id = both.tasks.block_loop.enqueue(gate="go").id
    (first,) = both.wait_for("start", job=id)
    both.scene.open("no-beat")
    other = both.start()
    second = both.wait_for("start", 2, job=id)[1]
    assert (first["pid"], second["pid"]) == (lost.pid, other.pid)
    both.scene.open(f"go.{lost.pid}")
    lost.wait_for_log(f"another worker holds job {id}")
    assert both.job(id).state == "running"
    both.scene.open(f"go.{other.pid}")
    job = both.wait_for_state(id, "succeeded")
    assert (job.counts["crashes"], job.counts["errors"]) == (1, 0)
    assert "lease lost" not in other.log


def test_a_frozen_worker_comes_back_too_late(both: Crew) -> None:
    """B012: SIGSTOP past the lease, then SIGCONT: it stops the job it has lost, or is told that its report is stale."""
    frozen = both.start()
    id = both.tasks.hold.enqueue(gate="go").id
    both.wait_for("start", job=id)
    both.freeze(frozen)
    other = both.start()
    both.wait_for("start", 2, job=id)
    both.scene.open(f"go.{frozen.pid}")
    frozen.thaw()
    frozen.wait_for_log("lease lost")
    frozen.wait_for_log(f"another worker holds job {id}")
    assert both.job(id).state == "running"
    assert f"-{other.pid}-" in (both.job(id).worker or "")
    both.scene.open(f"go.{other.pid}")
    assert both.wait_for_state(id, "succeeded").counts["crashes"] == 1
    assert both.starts(id) == 2
    # it is not a zombie: it works on
    other.stop()
    later = both.tasks.hold.enqueue(gate=f"go.{frozen.pid}").id
    both.wait_for_state(later, "succeeded")


def test_a_delay_longer_than_the_lease_is_no_reason_for_copies(both: Crew) -> None:
    """B038: three workers with a lease of 2 s, a job due in 6 s: one run, when it is due."""
    for _ in range(3):
        both.start()
    id = both.tasks.hold.using(run_after=6.0).enqueue(gate="go").id
    due = both.job(id).due
    both.scene.open("go")
    states = set()
    both.watch(lambda: states.add(both.job(id).state) or both.job(id).state == "succeeded", "its end")
    job = both.job(id)
    assert job.finished is not None
    assert job.finished >= due
    assert states <= {"scheduled", "ready", "running", "succeeded"}
    assert (both.starts(id), job.counts["crashes"], job.counts["releases"]) == (1, 0, 0)


def test_a_cut_connection_does_not_cost_the_job(
    redis_url: str, proxy_factory: Callable[[str], Proxy], crew_on: Callable[..., Crew]
) -> None:
    """B047: every connection of the worker is reset while the job runs: it is not started again, and its end counts."""
    crew = crew_on(redis_url, lease=4.0, heartbeat=1.0)
    proxy = proxy_factory(redis_url)
    cut = crew.start(url=proxy.url)
    id = crew.tasks.hold_once.enqueue(gate="go").id
    crew.wait_for("start", job=id)
    crew.start()
    connections = proxy.accepted
    proxy.cut()
    crew.watch(lambda: proxy.accepted > connections, "a new connection")
    renewed(crew, 4)
    proxy.cut()
    crew.scene.open("go")
    job = crew.wait_for_state(id, "succeeded")
    assert (crew.starts(id), job.counts["crashes"]) == (1, 0)
    assert cut.running


def test_cancelling_stops_the_handler(both: Crew) -> None:
    """B110: a job running in another process is cancelled: the handler is stopped there, not only marked here."""
    both.start()
    id = both.tasks.hold.enqueue(gate="go").id
    both.wait_for("start", job=id)
    assert both.app.jobs.cancel(id) == "requested"
    both.wait_for("interrupted", job=id)
    both.wait_for_state(id, "cancelled")
    both.scene.open("go")
    later = both.tasks.hold.enqueue(gate="go").id
    both.wait_for_state(later, "succeeded")
    assert both.scene.notes("end", job=id) == []


def test_a_rolling_deploy_leaves_new_tasks_to_new_workers(both: Crew) -> None:
    """3b.19: an old worker puts back what it does not know, at no cost; the new one beside it runs it.

    Whoever of the two is quicker gets a job that is due again, so all are sure to run only once the old one has left.
    """
    old = both.start(version=1)
    assert both.tasks.newest is not None
    ids = [both.tasks.newest.enqueue(number=number).id for number in range(5)]
    old.wait_for_log("(unknown task)", 5)
    assert {both.job(id).state for id in ids} <= {"scheduled", "ready", "running"}
    new = both.start()
    assert both.wait_for("done")[0]["pid"] == new.pid
    old.stop()
    jobs = [both.wait_for_state(id, "succeeded") for id in ids]
    assert [(job.counts["attempts"], job.counts["crashes"]) for job in jobs] == [(0, 0)] * 5


def test_a_worker_whose_heartbeats_failed_is_no_zombie(both: Crew) -> None:
    """B021: no heartbeat gets through for longer than the lease; once they do, it is registered and works on."""
    worker = both.start(faults="no-beat")
    both.scene.open("no-beat")
    worker.wait_for_log("heartbeat failed", 6)  # two a second, with a lease of two seconds
    both.scene.shut("no-beat")
    id = both.tasks.hold.enqueue(gate="go").id
    both.wait_for("start", job=id)
    (registered,) = both.watch(
        lambda: [row for row in both.app.jobs.workers() if row.held == 1], "the worker to be registered"
    )
    assert f"-{worker.pid}-" in registered.worker
    renewed(both, 3)
    both.scene.open("go")
    assert both.wait_for_state(id, "succeeded").counts["crashes"] == 0
