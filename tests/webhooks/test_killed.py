"""A worker that dies while the receiver thinks: the webhook is sent again, as the same one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace import Headrace
from headrace.webhooks import Webhooks, new_secret, verify
from tests.process.workers import ROOT, WorkerProcess
from tests.waiting import wait_until
from tests.webhooks.receiver import Receiver, answering, hanging


@contextmanager
def working(log: Path, **environment: str) -> Iterator[WorkerProcess]:
    """A worker of tests/webhooks/shop.py in a process of its own, which is killed at the end of the block."""
    command = [sys.executable, "-m", "headrace.cli", "work", "--app", "tests.webhooks.shop:app"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stderr=stderr
        )
    worker = WorkerProcess(process, log)
    try:
        worker.wait_for_log(" started on ")
        yield worker
    finally:
        worker.kill()


def test_a_worker_is_killed_after_the_request_and_before_the_answer(receiver: Receiver, tmp_path: Path) -> None:
    url, secret, notes = f"sqlite:///{tmp_path / 'shop.db'}", new_secret(), tmp_path / "notes"
    notes.touch()
    environment = {"SHOP_URL": url, "SHOP_SECRET": secret, "SHOP_NOTES": str(notes)}
    with Headrace(url) as app:
        hooks = Webhooks(app, secret=secret, allow="127.0.0.1")
        job = hooks.send(receiver.url(), {"order": 17}, event="order.paid")
        receiver.script, receiver.behaviour = [hanging], answering("204 No Content")
        with working(tmp_path / "first.log", **environment):
            assert receiver.arrived.wait(30)
        with working(tmp_path / "second.log", **environment) as second:
            wait_until(notes.read_text, 45, "the delivery")
            second.stop()
    assert notes.read_text() == f"{job.id} 204\n"
    assert [verify(secret, request.headers, request.body) for request in receiver.requests] == [job.id] * 2
    assert receiver.requests[0].body == receiver.requests[1].body
