"""Workers that start themselves anew: under the same process id, with nothing lost and nothing done twice."""

from tests.process.workers import Crew

SOON = 20.0


def test_age_is_a_reason(on_sqlite: Crew) -> None:
    """B115: after its age limit the worker finishes what it runs, starts anew, and goes on working."""
    worker = on_sqlite.start("--max-age", "500ms")
    id = on_sqlite.tasks.hold.enqueue(gate="go").id
    on_sqlite.wait_for("start", job=id)
    worker.wait_for_log("recycling: ")
    on_sqlite.scene.open("go")
    worker.wait_for_log(" started on ", 2)
    assert on_sqlite.wait_for_state(id, "succeeded").counts["releases"] == 0
    later = on_sqlite.tasks.hold.enqueue(gate="go").id
    on_sqlite.wait_for_state(later, "succeeded")
    assert (on_sqlite.starts(id), worker.running) == (1, True)
    assert "(max_age)" in worker.log


def test_memory_is_a_reason(on_redis: Crew) -> None:
    """B115: the memory that a handler keeps is gone with the old process image; the jobs are not."""
    worker = on_redis.start("--max-memory", "220M", "--concurrency", "1")
    ids = [on_redis.tasks.swell.enqueue(megabytes=90).id for _ in range(4)]
    for id in ids:
        on_redis.wait_for_state(id, "succeeded")
    worker.wait_for_log(" started on ", 2)
    assert "(max_memory 230,686,720)" in worker.log
    assert [len(on_redis.scene.notes("end", job=id)) for id in ids] == [1] * 4
    assert {note["pid"] for note in on_redis.scene.notes("end")} == {worker.pid}


def test_a_signal_while_it_drains_ends_it_for_good(on_sqlite: Crew) -> None:
    """B024: told to stop while it waits for its jobs in order to start anew, it stops, within grace from then."""
    worker = on_sqlite.start("--max-age", "500ms", "--grace", "200ms")
    id = on_sqlite.tasks.hold.enqueue(gate="never").id
    on_sqlite.wait_for("start", job=id)
    worker.wait_for_log("recycling: ")
    worker.terminate()
    assert worker.ended(SOON) == 0
    assert worker.log.count(" started on ") == 1
    job = on_sqlite.job(id)
    assert (job.state, job.counts["attempts"], job.counts["releases"]) == ("ready", 0, 1)


def test_stuck_threads_are_a_reason(on_redis: Crew) -> None:
    """B105: handlers that overrun in their threads for ever go down with the old process image; others go on."""
    worker = on_redis.start("--concurrency", "2", "--max-stuck", "1", "--grace", "1s")
    for _ in range(2):
        on_redis.tasks.overrun.enqueue(gate="never")
    worker.wait_for_log("recycling: too many threads are stuck")
    on_redis.scene.open("never")  # their second attempt, in the new image, may end
    worker.wait_for_log(" started on ", 2)
    id = on_redis.tasks.hold.enqueue(gate="never").id
    on_redis.wait_for_state(id, "succeeded")
    assert worker.running
