"""Workers that die: their jobs run again, once, in time, and the history says what happened."""

import itertools
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.core import operations as ops
from tests.process.workers import Crew

WITHIN = 15.0  # seconds from the kill to the second start: lease 2, a sweep, and a slow machine


def start_of(crew: Crew, id: str, number: int = 1) -> dict[str, Any]:
    """The note of a job's start, the first, the second ..."""
    return crew.wait_for("start", number, job=id)[number - 1]


def test_a_killed_workers_job_runs_again(both: Crew) -> None:
    """B001, B002, B018, B023: the other worker takes it over by itself; a crash costs no attempt and is on record.

    The task has no timeout: being rescued is nothing it has to ask for.
    """
    both.start()
    both.start()
    id = both.tasks.hold.enqueue(gate="go").id
    first = start_of(both, id)
    both.of(first).kill()
    killed = time.monotonic()
    # looked at all the time: the job is never missing from every state
    both.watch(lambda: both.job(id) and both.starts(id) == 2, "a second start")
    second = start_of(both, id, 2)
    assert second["at"] - killed < WITHIN
    assert second["pid"] != first["pid"]
    assert second["token"] > first["token"]
    both.scene.open("go")
    job = both.wait_for_state(id, "succeeded")
    assert (job.counts["attempts"], job.counts["errors"], job.counts["crashes"]) == (0, 0, 1)
    assert [(mishap.kind, mishap.type) for mishap in job.history] == [("crash", "WorkerLost")]
    assert f"-{first['pid']}-" in job.history[0].worker
    assert len(both.scene.notes("end", job=id)) == 1


def test_rescue_waits_for_the_lease_not_for_the_timeout(on_redis: Crew) -> None:
    """B011: the job may run for an hour; its worker's death shows after one lease."""
    worker = on_redis.start()
    id = on_redis.tasks.hold_briefly.enqueue(gate="go").id  # timeout: one hour
    start_of(on_redis, id)
    worker.kill()
    killed = time.monotonic()
    on_redis.start()
    assert start_of(on_redis, id, 2)["at"] - killed < WITHIN


def test_the_death_of_the_process_is_no_acknowledgement(both: Crew) -> None:
    """B007: the job kills its own worker in its first run; the second one succeeds."""
    both.start()
    both.start()
    id = both.tasks.kill_worker.enqueue(times=1).id
    job = both.wait_for_state(id, "succeeded")
    assert both.starts(id) == 2
    assert job.counts["crashes"] == 1
    assert sum(worker.running for worker in both.all) == 1


def test_crashes_are_counted_by_the_job_whoever_finds_them(on_redis: Crew) -> None:
    """B009: every crash is found by another worker; the third one convicts, and the fourth worker lives."""
    id = on_redis.tasks.kill_worker.enqueue(times=100).id
    for _ in range(3):
        on_redis.start().ended()
    last = on_redis.start()
    job = on_redis.wait_for_state(id, "failed")
    assert job.reason == "crashed"
    assert (job.counts["crashes"], job.counts["attempts"], on_redis.starts(id)) == (3, 0, 3)
    assert len({mishap.worker for mishap in job.history if mishap.kind == "crash"}) == 3
    assert f"job {id}: failed (crashed)" in last.log
    assert last.running


def test_poison_takes_no_bystanders_with_it(both: Crew) -> None:
    """3b.5: at concurrency 25, beside 20 good jobs: three deaths, the killer is convicted, all good ones are done."""
    workers = [both.start("--concurrency", "25") for _ in range(4)]
    good = [both.tasks.hold.enqueue(gate="good").id for _ in range(20)]
    id = both.tasks.poison.enqueue(gate="now").id
    both.watch(lambda: len(both.scene.notes("start")) >= 21, "all jobs to run")
    both.scene.open("now")

    def convicted() -> bool:
        for place, worker in enumerate(workers):
            if not worker.running:
                workers[place] = both.start("--concurrency", "25")
        if len(both.all) >= 4 + 2:  # the good ones were there at two deaths; from now on they are suspects
            both.scene.open("good")
        return both.job(id).state == "failed"

    both.watch(convicted, "the conviction", 100)
    assert both.job(id).reason == "crashed"
    assert both.job(id).counts["crashes"] == 3
    jobs = [both.wait_for_state(each, "succeeded") for each in good]
    assert sum(worker.running for worker in both.all) == 4
    assert len(both.all) == 4 + 3
    assert all(job.counts["crashes"] < 3 for job in jobs)


def test_a_task_that_kills_its_workers_is_held_until_newer_code_runs_it(on_sqlite: Crew) -> None:
    """Three of its jobs are convicted, and the others wait without a death more; other tasks flow."""
    crew = on_sqlite
    ids = [crew.tasks.deadly.enqueue(number=number).id for number in range(3)]

    def convicted() -> bool:
        if not any(worker.running for worker in crew.all):
            crew.start(version=1)
        return all(crew.job(id).state == "failed" for id in ids)

    crew.watch(convicted, "three convictions", 90)
    deaths = sum(not worker.running for worker in crew.all)
    assert deaths == 1 + 3  # the first time together
    assert {crew.job(id).reason for id in ids} == {"crashed"}
    crew.watch(crew.app.holds.look, "the hold")
    rest = [crew.tasks.deadly.enqueue(number=number).id for number in range(10, 15)]
    crew.tasks.quick.enqueue(number=1)
    for id in rest:
        assert crew.wait_for_state(id, "parked").reason == "held deadly v1"
    crew.wait_for("done", task="quick")
    crew.start(version=2)
    crew.wait_for("done", 5, task="deadly")
    assert sorted(note["number"] for note in crew.scene.notes("done", task="deadly")) == list(range(10, 15))
    assert sum(not worker.running for worker in crew.all) == deaths
    assert any("task deadly is held under version v1: 3 jobs of it killed" in worker.log for worker in crew.all)
    assert "is tried again under version v2" in crew.all[-1].log


def test_a_missing_row_of_a_worker_means_that_it_is_dead(on_sqlite: Crew, sqlite_path: Path) -> None:
    """B013: the dead worker's row is pruned before its job is rescued."""
    worker = on_sqlite.start()
    id = on_sqlite.tasks.hold.enqueue(gate="go").id
    start_of(on_sqlite, id)
    worker.kill()
    connection = sqlite3.connect(sqlite_path, isolation_level=None)
    table = f"{on_sqlite.scene.settings.name}_workers"
    assert connection.execute(f"delete from {table}").rowcount == 1
    connection.close()
    on_sqlite.app.jobs.prune(older_than=0)
    on_sqlite.scene.open("go")
    on_sqlite.start()
    assert on_sqlite.wait_for_state(id, "succeeded").counts["crashes"] == 1


def test_a_worker_that_dies_while_it_sweeps_holds_up_nobody(both: Crew) -> None:
    """B015: looking for dead workers is no job and takes no lock; the next worker does it as well."""
    holder = both.start()
    id = both.tasks.hold.enqueue(gate="go").id
    start_of(both, id)
    sweeper = both.start(faults="slow-sweep")
    both.scene.open("sweep")
    both.wait_for("sweeping")
    holder.kill()
    sweeper.kill()
    both.scene.open("go")
    both.start()
    assert both.wait_for_state(id, "succeeded").counts["crashes"] == 1


def test_an_expired_claim_blocks_nothing(on_redis: Crew) -> None:
    """B016: a replacement with one slot runs the other jobs of the task, and then the dead worker's."""
    worker = on_redis.start("--concurrency", "1")
    first = on_redis.tasks.hold.enqueue(gate="go").id
    start_of(on_redis, first)
    worker.kill()
    on_redis.scene.open("go")
    others = [on_redis.tasks.hold.enqueue(gate="go").id for _ in range(2)]
    on_redis.start("--concurrency", "1")
    for id in (*others, first):
        on_redis.wait_for_state(id, "succeeded")
    assert [on_redis.starts(id) for id in (first, *others)] == [2, 1, 1]


def test_all_sweepers_at_once_rescue_each_job_once(store_url: str, crew_on: Any) -> None:
    """B046: 500 orphans, six sweepers: 500 transitions, and one crash more for each job."""
    crew: Crew = crew_on(store_url)
    crew.tasks.quick.enqueue_many([{"number": number} for number in range(500)])
    driver = crew.app.driver
    claimed = [driver.run(ops.Claim(f"dead-{n}", 1, ("default",), 100, 1)).jobs for n in range(5)]
    ids = {job.id for jobs in claimed for job in jobs}
    assert len(ids) == 500
    rescued: list[ops.Orphan] = []

    def sweep() -> None:
        for _ in itertools.count():
            found = driver.run(ops.Rescue(("default",), 50)).jobs
            if not found:
                return
            rescued.extend(found)

    threads = [threading.Thread(target=sweep) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(orphan.id for orphan in rescued) == Counter(ids)
    page = crew.app.jobs.list("ready", limit=500)
    assert Counter(job.counts["crashes"] for job in page.jobs) == Counter({1: 500})


def test_all_sweepers_find_no_living_job(store_url: str, crew_on: Any) -> None:
    """B043: two processes work on 3,000 short jobs while four threads sweep as fast as they can: nothing is swept."""
    crew: Crew = crew_on(store_url, lease=5.0, heartbeat=1.0)
    for _ in range(2):
        crew.start("--concurrency", "20")
    driver, over, swept = crew.app.driver, threading.Event(), []

    def sweep() -> None:
        while not over.is_set():
            swept.extend(driver.run(ops.Rescue(("default",))).jobs)
            over.wait(0.002)

    threads = [threading.Thread(target=sweep) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for part in range(3):
            crew.tasks.quick.enqueue_many([{"number": part * 1000 + number} for number in range(1000)])
        crew.wait_for("done", 3000)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert swept == []
    assert Counter(note["number"] for note in crew.scene.notes("done")) == Counter(range(3000))


def test_coroutines_and_threads_are_rescued_alike(on_sqlite: Crew) -> None:
    """B018: neither kind of handler needs a timeout or a heartbeat of its own."""
    worker = on_sqlite.start()
    ids = [task.enqueue(gate="go").id for task in (on_sqlite.tasks.hold, on_sqlite.tasks.hold_thread)]
    for id in ids:
        start_of(on_sqlite, id)
    worker.kill()
    on_sqlite.scene.open("go")
    on_sqlite.start()
    for id in ids:
        assert on_sqlite.wait_for_state(id, "succeeded").counts["crashes"] == 1
