"""Real workers that die between a handler's completion, its commit and the worker's own look."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from tests.transactions.callers import KINDS, Caller
from tests.transactions.shift import orders, wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["sqlite3", "psycopg", "pymysql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Mortals:
    """Workers of an app, and what they leave behind."""

    def __init__(self, settings: tuple[str, ...], folder: Path) -> None:
        self._settings = settings
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, moment: str) -> "subprocess.Popen[bytes]":
        """One more, which is to die at a moment such as "killed-committed"."""
        settings = "|".join((*self._settings, str(self._folder), moment))
        command = [sys.executable, "-m", "headrace.cli", "work", "--app", "tests.transactions.killing:app"]
        environment = {**os.environ, "HEADRACE_KILLING": settings}
        with (self._folder / f"log-{len(self._started)}").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=log)
        self._started.append(process)
        return process

    def runs(self) -> int:
        """How often the handler has begun."""
        return len((self._folder / "runs").read_text().split())

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


@pytest.fixture
def mortals(kind: str, place: str, caller: Caller, unique_name: str, tmp_path: Path) -> Iterator[Mortals]:
    url = f"sqlite:///{place}" if KINDS[kind][0] == "sqlite" else place
    made = Mortals((url, unique_name, kind, place, caller.table), tmp_path)
    yield made
    made.end()


@pytest.fixture
def tasks(app: Headrace) -> dict[str, Any]:
    """Those of the worker's app, by name; never run here."""

    @app.task(name="work")
    def work() -> None: ...

    @app.task(name="wait")
    def wait() -> None: ...

    return {"work": work, "wait": wait}


@pytest.mark.parametrize("moment", ["begun", "completed"])
def test_death_before_the_commit_leaves_no_effect_and_the_job(
    app: Headrace, tasks: dict[str, Any], caller: Caller, mortals: Mortals, moment: str
) -> None:
    job = tasks["work"].enqueue()
    assert mortals.start(f"killed-{moment}").wait(60) == -signal.SIGKILL
    assert orders(caller) == []
    mortals.start("never")
    wait_for(app, job.id, "succeeded")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (mortals.runs(), info.counts["crashes"], orders(caller)) == (2, 1, [2])


def test_death_after_the_commit_and_before_the_worker_hears_of_it_runs_nothing_twice(
    app: Headrace, tasks: dict[str, Any], caller: Caller, mortals: Mortals
) -> None:
    other, job = tasks["wait"].enqueue(), tasks["work"].enqueue()
    assert mortals.start("killed-committed").wait(60) == -signal.SIGKILL
    wait_for(app, job.id, "succeeded")
    mortals.start("never")
    wait_for(app, other.id, "succeeded")  # what the dead worker held is rescued, so this job would have been too
    assert (mortals.runs(), orders(caller)) == (1, [1])
