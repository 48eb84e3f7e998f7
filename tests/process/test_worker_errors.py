"""Errors of every kind: they end one attempt, and neither the slot nor the worker."""

import json

import pytest

from tests.process.apps.tasks import ERRORS
from tests.process.workers import Crew


@pytest.mark.parametrize("kind", ["coroutines", "threads"])
def test_no_error_costs_more_than_its_attempt(on_sqlite: Crew, kind: str) -> None:
    """B010: MemoryError, SystemExit, KeyboardInterrupt ... then as many jobs as there are slots run side by side."""
    tasks = on_sqlite.tasks
    failing, healthy = {
        "coroutines": (tasks.raise_one, tasks.hold),
        "threads": (tasks.raise_one_in_thread, tasks.hold_thread),
    }[kind]
    worker = on_sqlite.start("--concurrency", "10")
    ids = {error: failing.enqueue(error=error).id for error in ERRORS}
    for error, id in ids.items():
        job = on_sqlite.wait_for_state(id, "failed")
        # Python itself makes another error of a StopIteration that leaves a coroutine
        assert job.reason in {error, "RuntimeError"}
        assert "_raise" in job.traceback
    good = [healthy.enqueue(gate="go").id for _ in range(10)]
    on_sqlite.watch(lambda: all(on_sqlite.starts(id) for id in good), "ten jobs at once")
    on_sqlite.scene.open("go")
    for id in good:
        on_sqlite.wait_for_state(id, "succeeded")
    worker.stop()


def test_the_log_says_why(on_sqlite: Crew) -> None:
    """A retry's line carries the error's message, a failure's the traceback too, in both formats."""
    text, structured = on_sqlite.start("--queues", "default"), None
    id = on_sqlite.tasks.raise_one.enqueue(error="MemoryError").id
    on_sqlite.wait_for_state(id, "failed")
    text.wait_for_log(f"job {id}: failed (MemoryError): 3")
    assert "Traceback (most recent call last)" in text.log
    assert "raise ERRORS[error](3)" in text.log
    text.stop()
    structured = on_sqlite.start("--log-format", "json")
    id = on_sqlite.tasks.raise_one.enqueue(error="Calamity").id
    on_sqlite.wait_for_state(id, "failed")
    structured.wait_for_log(id)
    (line,) = [each for each in map(json.loads, structured.log.splitlines()) if each.get("job_id") == id]
    assert line["message"] == f"job {id}: failed (Calamity): 3"
    assert line["traceback"].rstrip().endswith("Calamity: 3")
    assert (line["task"], line["attempt"]) == ("raise_one", 1)
