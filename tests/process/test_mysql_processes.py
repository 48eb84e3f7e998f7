"""Several processes at once, killed without a goodbye."""

import subprocess
import sys
from pathlib import Path

from headrace.core import operations as ops
from headrace.testing.conformance.harness import job
from tests.process.mysql_jobs import open_driver
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
JOBS = 600


def test_killed_processes_lose_no_job_and_settle_none_twice(mysql_url: str, unique_name: str, tmp_path: Path) -> None:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Enqueue(tuple(job(f"{n:03}") for n in range(JOBS))))
    log = tmp_path / "settled"

    def start(worker: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.process.mysql_worker", mysql_url, unique_name, worker, str(log)]
        return subprocess.Popen(words, cwd=ROOT)

    def settled() -> list[str]:
        return log.read_text(encoding="utf-8").split() if log.exists() else []

    processes = [start(f"w{n}") for n in range(3)]
    try:
        for n, many in enumerate((50, 150, 250)):
            wait_until(lambda many=many: len(settled()) >= many, timeout=30)  # type: ignore[misc]
            processes[n].kill()
            processes[n].wait()
            processes.append(start(f"again{n}"))

        def over() -> bool:
            driver.run(ops.Rescue(("q",)))
            queue = driver.run(ops.Queues())[0]
            return queue.ready + queue.running == 0

        wait_until(over, timeout=60, what="all jobs to end")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    seen = settled()
    # a kill between the store's answer and the log loses a line, never a job; nothing is settled twice
    assert len(seen) == len(set(seen))
    assert JOBS - 30 <= len(seen) <= JOBS
    assert driver.run(ops.Enqueue(tuple(job(f"{n:03}") for n in range(JOBS))))[0].status == "exists"
    driver.close()
