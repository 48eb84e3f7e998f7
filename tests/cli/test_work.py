"""`headrace work` as a process of its own, on a SQLite file, fed and looked at through the command line."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

JOBS = """
import os, threading, time
from pathlib import Path
from headrace import Headrace, Retry, current_job

app = Headrace("sqlite:///jobs.db", name="shop")

def note(text):
    with open("done.txt", "a") as file:
        file.write(text + "\\n")

@app.task(name="mail", queue="mail", log=("order_id",))
async def mail(order_id: int) -> None:
    note(f"mail {order_id} by {os.getpid()}")

@app.task(name="report", queue="report")
def report(day: str) -> None:
    note(f"report {day} by {os.getpid()}")

@app.task(name="broken", queue="mail", retry=Retry(max_attempts=1))
async def broken() -> None:
    raise ValueError("broken \\x1b[31m on purpose")

@app.task(name="endless", queue="mail")
async def endless() -> None:
    import asyncio
    note("endless started")
    await asyncio.Event().wait()
"""


class Shop:
    """A folder with an app, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[subprocess.Popen[str]] = []
        (folder / "jobs.py").write_text(JOBS, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "headrace.cli", "--app", "jobs:app", *arguments]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), cwd=self.folder, input=stdin, capture_output=True, text=True, check=False
        )

    def work(self, *arguments: str) -> subprocess.Popen[str]:
        log = (self.folder / f"worker-{len(self.workers)}.log").open("w")
        worker = subprocess.Popen(self.command("work", *arguments), cwd=self.folder, stderr=log, text=True)
        log.close()
        self.workers.append(worker)
        return worker

    def log(self, number: int = 0) -> str:
        return (self.folder / f"worker-{number}.log").read_text()

    def done(self) -> list[str]:
        path = self.folder / "done.txt"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, text: str) -> None:
        try:
            wait_until(lambda: any(line.startswith(text) for line in self.done()), 20, text)
        except AssertionError as error:
            error.add_note(self.log())
            raise


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    yield shop
    for worker in shop.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


def test_a_job_enqueued_here_is_done_there(shop: Shop) -> None:
    worker = shop.work()
    for arguments in (["mail", "order_id=17"], ["report", "day=monday"]):
        enqueued = shop.run("enqueue", *arguments)
        assert (enqueued.returncode, enqueued.stderr) == (0, "")
    shop.wait_for("mail 17")
    shop.wait_for("report monday")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert sorted(line.rpartition(" by ")[0] for line in shop.done()) == ["mail 17", "report monday"]
    queues = [json.loads(line) for line in shop.run("queue", "list", "--json").stdout.splitlines()]
    assert [(queue["ready"], queue["running"], queue["failed"]) for queue in queues] == [(0, 0, 0)] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_hands_back_what_does_not_end_and_exits_0(shop: Shop, number: signal.Signals) -> None:
    """B024: a deploy costs no attempt and takes no longer than the grace."""
    worker = shop.work("--grace", "100ms")
    id = shop.run("enqueue", "endless").stdout.strip()
    shop.wait_for("endless started")
    worker.send_signal(number)
    assert worker.wait(20) == 0
    job = json.loads(shop.run("job", "show", id, "--json").stdout)
    assert job["state"] == "ready"
    assert (job["counts"]["attempts"], job["counts"]["crashes"], job["counts"]["releases"]) == (0, 0, 1)


def test_only_the_named_queues_are_worked_on(shop: Shop) -> None:
    shop.run("enqueue", "report", "day=monday")
    shop.run("enqueue", "mail", "order_id=1")
    worker = shop.work("--queues", "mail", "--concurrency", "2", "--threads", "1")
    shop.wait_for("mail 1")
    worker.terminate()
    assert worker.wait(20) == 0
    assert len(shop.done()) == 1
    assert (
        "no live worker" in shop.run("why", shop.run("enqueue", "report", "day=tuesday").stdout.strip()).stdout.lower()
    )


def test_a_queue_that_no_task_uses_is_hinted_at(shop: Shop) -> None:
    """It is no error, for jobs may be sent to any queue; but a misspelt one would leave a worker idle for ever."""
    worker = shop.work("--queues", "mail,nosuch")
    shop.run("enqueue", "mail", "order_id=1")
    shop.wait_for("mail 1")
    worker.terminate()
    assert worker.wait(20) == 0
    assert "no task of this app uses queue 'nosuch'; known queues: " in shop.log()
    assert "uses queue 'mail'" not in shop.log()


def test_twice_runs_every_handler_twice(shop: Shop) -> None:
    worker = shop.work("--twice")
    shop.run("enqueue", "mail", "order_id=1")
    wait_until(lambda: len(shop.done()) == 2, 20, "both runs")
    worker.terminate()
    assert worker.wait(20) == 0
    assert [line.rpartition(" by ")[0] for line in shop.done()] == ["mail 1", "mail 1"]


def test_json_logs_carry_the_job(shop: Shop) -> None:
    """B094: every line is JSON, and the error's text is in it as data."""
    worker = shop.work("--log-format", "json", "--verbose", "--queues", "mail:3,report:1")
    id = shop.run("enqueue", "broken").stdout.strip()
    mail = shop.run("enqueue", "mail", "order_id=5").stdout.strip()
    shop.wait_for("mail 5")
    wait_until(lambda: shop.run("failed", "list", "--json").stdout, 20, "the failed job")
    worker.terminate()
    assert worker.wait(20) == 0
    lines = [json.loads(line) for line in shop.log().splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    by_job = {line["job_id"]: line for line in lines if "job_id" in line}
    assert (by_job[id]["task"], by_job[id]["queue"], by_job[id]["attempt"]) == ("broken", "mail", 1)
    assert by_job[id]["level"] == "error"
    assert by_job[mail]["arguments"] == {"order_id": 5}
    failed = json.loads(shop.run("failed", "show", id, "--json").stdout)
    assert failed["reason"] == "ValueError"
    assert failed["history"][0]["message"] == "broken \x1b[31m on purpose"


def test_recycling_goes_on_under_the_same_process_id(shop: Shop) -> None:
    """A worker that starts itself anew loses nothing and does nothing twice."""
    lines = "\n".join(
        json.dumps({"v": 1, "id": f"j{number}", "task": "mail", "queue": "mail", "args": {"order_id": number}})
        for number in range(30)
    )
    worker = shop.work("--max-jobs", "10", "--concurrency", "5")
    assert shop.run("enqueue", "--envelope", "-", stdin=lines).stdout == "30 jobs enqueued\n"
    wait_until(lambda: len(shop.done()) >= 30, 30, "30 jobs")
    wait_until(lambda: shop.log().count(" started on ") >= 2, 30, "a second start")
    worker.terminate()
    assert worker.wait(20) == 0
    assert sorted(int(line.split()[1]) for line in shop.done()) == list(range(30))
    assert {line.rpartition(" ")[2] for line in shop.done()} == {str(worker.pid)}


def test_a_wrong_setting_ends_it_at_once(shop: Shop) -> None:
    """B115: a limit below what the process starts with is one clear error, not a loop of restarts."""
    result = shop.run("work", "--max-memory", "1M")
    assert result.returncode == 2
    assert "max_memory is 1,048,576 bytes" in result.stderr
    assert "Traceback" not in result.stderr
