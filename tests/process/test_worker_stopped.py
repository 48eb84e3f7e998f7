"""Workers that are told to stop: what they hold is finished or handed back, and costs no attempt."""

import signal
import time
from collections.abc import Callable

import pytest

from tests.process.workers import Crew
from tests.servers import RedisServer

SOON = 20.0  # seconds in which a process ends that has little to wait for, on a slow machine


def test_a_signal_between_claim_and_start_hands_the_job_back(both: Crew) -> None:
    """B003: it comes when the store has given the job away and the worker does not know yet."""
    worker = both.start(faults="late-claim")
    id = both.tasks.hold.enqueue(gate="go").id
    both.wait_for("claimed")
    assert both.job(id).state == "running"
    worker.terminate()
    worker.wait_for_log("was told to stop")
    both.scene.open("claim")
    assert worker.ended(SOON) == 0
    job = both.job(id)
    assert (job.state, job.worker, both.starts(id)) == ("ready", None, 0)
    assert (job.counts["attempts"], job.counts["crashes"], job.counts["releases"]) == (0, 0, 1)


def test_what_ends_within_grace_is_reported(both: Crew) -> None:
    """B005: it succeeds after the signal; the next worker does not run it again."""
    worker = both.start("--grace", "60s")
    ids = [task.enqueue(gate="go").id for task in (both.tasks.hold, both.tasks.hold_thread)]
    both.wait_for("start", 2)
    worker.terminate()
    both.scene.open("go")
    assert worker.ended(SOON) == 0
    assert [both.job(id).state for id in ids] == ["succeeded"] * 2
    both.start("--burst").ended(SOON)
    assert [both.starts(id) for id in ids] == [1, 1]


def test_what_does_not_end_is_ready_again_at_once(both: Crew) -> None:
    """B017: right after the worker's end, the job is nobody's, and the next worker starts it without any lease."""
    worker = both.start("--grace", "300ms")
    id = both.tasks.hold.enqueue(gate="go").id
    both.wait_for("start", job=id)
    worker.terminate()
    assert worker.ended(SOON) == 0
    job = both.job(id)
    assert (job.state, job.worker, job.counts["releases"]) == ("ready", None, 1)
    assert len(both.scene.notes("interrupted", job=id)) == 1
    assert both.app.jobs.workers() == []


def test_deploys_use_up_no_attempt(on_redis: Crew) -> None:
    """B024: five deploys interrupt a job that may be tried three times; then it succeeds in its first attempt."""
    id = on_redis.tasks.hold.enqueue(gate="go").id
    for deploy in range(5):
        worker = on_redis.start("--grace", "0s")
        on_redis.wait_for("start", deploy + 1, job=id)
        worker.stop()
    on_redis.scene.open("go")
    on_redis.start()
    job = on_redis.wait_for_state(id, "succeeded")
    assert (job.counts["attempts"], job.counts["releases"], job.counts["crashes"]) == (0, 5, 0)
    assert {note["attempt"] for note in on_redis.scene.notes("start", job=id)} == {1}
    assert job.history == ()


def test_delayed_jobs_are_never_in_the_hands_of_a_worker(store_url: str, crew_on: Callable[..., Crew]) -> None:
    """B006: 20 jobs are due in a while; the worker is stopped and started meanwhile; each runs once, when it is due."""
    crew = crew_on(store_url)
    worker = crew.start()
    delay = 8.0
    enqueued = time.monotonic()
    crew.tasks.quick.using(run_after=delay).enqueue_many([{"number": number} for number in range(20)])
    for _ in range(2):
        assert [view.running for view in crew.app.jobs.queues()] == [0]
        worker.stop()
        worker = crew.start()
    notes = crew.wait_for("done", 20)
    assert sorted(note["number"] for note in notes) == list(range(20))
    # early by no more than clocks differ; late by a poll, on a machine that may be slow
    assert all(delay - 0.1 <= note["at"] - enqueued < delay + 10 for note in notes)
    worker.stop()
    assert len(crew.scene.notes("done")) == 20


def test_a_handler_that_swallows_cancellation_does_not_hold_up_the_end(on_sqlite: Crew) -> None:
    """B108: grace is over, the handler goes on: the job is handed back, the log names it, the exit code is 1."""
    worker = on_sqlite.start("--grace", "1s")
    id = on_sqlite.tasks.deaf.enqueue(gate="go").id
    on_sqlite.wait_for("start", job=id)
    worker.terminate()
    assert worker.ended(SOON) == 1
    assert on_sqlite.scene.notes("swallowed", job=id)
    assert f"job {id} does not end" in worker.log
    job = on_sqlite.job(id)
    assert (job.state, job.worker) == ("scheduled", None)
    assert (job.counts["attempts"], job.counts["releases"]) == (0, 1)
    on_sqlite.scene.open("go")
    on_sqlite.start()
    on_sqlite.wait_for_state(id, "succeeded")


def test_a_thread_does_not_hold_up_the_end(on_redis: Crew) -> None:
    """3b.13: a thread cannot be stopped; the process leaves without it, and the job is due again soon after."""
    worker = on_redis.start("--grace", "200ms")
    id = on_redis.tasks.hold_thread.enqueue(gate="go").id
    on_redis.wait_for("start", job=id)
    worker.terminate()
    assert worker.ended(SOON) == 0
    assert on_redis.job(id).state in {"scheduled", "ready"}  # it is due after two seconds
    on_redis.scene.open("go")
    on_redis.start()
    job = on_redis.wait_for_state(id, "succeeded")
    assert (job.counts["attempts"], job.counts["releases"], job.counts["crashes"]) == (0, 1, 0)
    assert len(on_redis.scene.notes("end", job=id)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_the_grace(on_sqlite: Crew, number: signal.Signals) -> None:
    """B024: whoever is in a hurry says so twice; that costs no attempt either."""
    worker = on_sqlite.start("--grace", "1h")
    id = on_sqlite.tasks.hold.enqueue(gate="go").id
    on_sqlite.wait_for("start", job=id)
    worker.signal(number)
    worker.wait_for_log("was told to stop")
    assert worker.running
    worker.signal(number)
    assert worker.ended(SOON) == 0
    job = on_sqlite.job(id)
    assert (job.state, job.counts["attempts"], job.counts["releases"]) == ("ready", 0, 1)


def test_the_end_does_not_wait_for_a_store_that_is_away(
    redis_server_factory: Callable[[], RedisServer], crew_on: Callable[..., Crew]
) -> None:
    """B026: SIGTERM in the middle of an outage, and before the store was ever there: both processes end."""
    server = redis_server_factory().start()
    crew = crew_on(server.url)
    busy = crew.start("--grace", "500ms")
    crew.tasks.hold.enqueue(gate="go")
    crew.wait_for("start")
    server.kill()
    busy.wait_for_log("failed")
    waiting = crew.start(ready=False)
    waiting.wait_for_log("sending a heartbeat failed")
    busy.terminate()
    waiting.terminate()
    assert busy.ended(40) == 0
    assert waiting.ended(40) == 0
    assert "unreported jobs run again after their lease" in busy.log


def test_jobs_run_again_after_an_end_without_store(
    redis_server_factory: Callable[[], RedisServer], crew_on: Callable[..., Crew]
) -> None:
    """B032: the worker could not report what it held; the job is still there, and is rescued when the store is back."""
    server = redis_server_factory().start(appendonly=True)
    crew = crew_on(server.url)
    worker = crew.start("--grace", "0s")
    id = crew.tasks.hold.enqueue(gate="go").id
    crew.wait_for("start")
    server.kill()
    worker.wait_for_log("failed")
    worker.terminate()
    worker.ended(40)
    server.restart()
    crew.scene.open("go")
    crew.start()
    assert crew.wait_for_state(id, "succeeded").counts["attempts"] == 0


def test_a_worker_closes_what_it_has_opened(both: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are left to the end of the process are told on by Python, and by the server's log."""
    monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning")
    both.scene.open("go")
    ids = [task.enqueue(gate="go").id for task in (both.tasks.hold, both.tasks.hold_thread)]
    worker = both.start("--burst")
    assert worker.ended(SOON) == 0
    assert "ResourceWarning" not in worker.log
    assert [both.job(id).state for id in ids] == ["succeeded"] * 2
