"""The same commands on Redis: nothing in them knows which store answers."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, redis_url: str, unique_name: str) -> Run:
    (tmp_path / "jobs.py").write_text(
        f"from headrace import Headrace\napp = Headrace({redis_url!r}, name={unique_name!r})\n"
        "@app.task(name='mail', queue='mail')\nasync def mail(order_id: int) -> None: ...\n"
    )

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.cli", *arguments, "--app", "jobs:app"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return call


def test_a_job_from_enqueue_to_cancel(run: Run) -> None:
    enqueued = run("enqueue", "mail", "order_id=17")
    assert (enqueued.returncode, enqueued.stderr) == (0, "")
    id = enqueued.stdout.strip()
    shown = json.loads(run("job", "show", id, "--json").stdout)
    assert (shown["id"], shown["state"], shown["args"]) == (id, "ready", {"order_id": 17})
    (queue,) = [json.loads(line) for line in run("queue", "list", "--json").stdout.splitlines()]
    assert (queue["queue"], queue["ready"]) == ("mail", 1)
    assert "ready in queue 'mail'" in run("why", id).stdout
    assert run("check", "--store").returncode == 0
    assert run("job", "cancel", id).returncode == 0
    assert run("job", "cancel", id).returncode == 1


def test_doctor_reads_the_server(run: Run) -> None:
    """B036: what the server's settings promise is told, with the fix."""
    result = run("doctor", "--json")
    assert result.returncode in (0, 1), result.stderr
    subjects = {json.loads(line)["subject"] for line in result.stdout.splitlines()}
    assert {"app", "tasks", "workers"} < subjects
    assert len(subjects) >= 6


def test_the_store_is_prepared(run: Run) -> None:
    result = run("schema", "upgrade")
    assert (result.returncode, result.stderr) == (0, "")
    assert " is ready; there is no schema" in result.stdout
    result = run("schema", "check", "--json")
    assert (result.returncode, json.loads(result.stdout)["state"]) == (0, "none")
    result = run("schema", "sql")
    assert (result.returncode, result.stdout) == (0, "")
    result = run("schema", "downgrade", "--to", "0", "--yes")
    assert (result.returncode, result.stderr) == (0, "")
    assert ": there is no schema" in result.stdout
