"""Real workers for the cases: inside the test's loop, or as processes that a test may kill."""

import asyncio
import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace import Headrace, JobInfo, State
from headrace.core import operations as ops
from headrace.worker import Worker
from tests.waiting import await_until, wait_until

HOUR_US = 3600 * 1_000_000

OPENING = """
import asyncio, os, signal, threading
from headrace import Fail, Headrace, Retry
from headrace.core.backoff import Fixed

app = Headrace(os.environ["JOBS_URL"], name=os.environ["JOBS_NAME"], lease=1.5, busy_timeout=0.5)

def say(*words):
    with open(os.environ["JOBS_SAID"], "a") as file:
        file.write(" ".join(map(str, words)) + "\\n")

def said(word):
    return open(os.environ["JOBS_SAID"]).read().split().count(word)
"""


@asynccontextmanager
async def working(app: Headrace, **options: Any) -> AsyncIterator[Worker]:
    """A worker of `app` in this loop, stopped at the end."""
    worker = app.worker(**options)
    run = asyncio.create_task(worker.run())
    try:
        await asyncio.wait_for(worker.started.wait(), 20)
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(run, 30)


async def state(app: Headrace, id: str) -> State | None:
    """Where the job stands; None when the store has nothing left of it."""
    info = await app.ajobs.get(id)
    return None if info is None else info.state


async def ended(app: Headrace, id: str, seconds: float = 15) -> JobInfo | None:
    """The job once it has ended; None when it succeeded and was deleted."""

    async def over() -> bool:
        return await state(app, id) not in {State.SCHEDULED, State.READY, State.RUNNING}

    await await_until(over, seconds, f"the end of job {id}")
    return await app.ajobs.get(id)


async def failed(app: Headrace, id: str) -> JobInfo:
    """The job, which must have failed."""
    info = await ended(app, id)
    assert info is not None, f"job {id} has not failed"
    assert info.state is State.FAILED
    return info


async def put(app: Headrace, id: str, body: bytes, **options: Any) -> None:
    """Store a message as another program might, unchecked."""
    options.setdefault("unique_us", HOUR_US)
    job = ops.NewJob(id, options.pop("queue", "default"), "anything", body, **options)
    (answer,) = await app.driver.arun(ops.Enqueue((job,)))
    assert answer.status == "new"


async def remember(app: Headrace, trail: bytes, claim: int = 1) -> None:
    """Let the first ready job come back from an earlier worker with that trail. `claim`: another number each time."""
    claimed = await app.driver.arun(ops.Claim("an earlier worker", claim, ("default",), 1, HOUR_US))
    (job,) = claimed.jobs
    outcome = ops.Outcome(job.id, job.queue, job.token, State.READY, trail=trail, reason="crashed")
    assert await app.driver.arun(ops.Settle("an earlier worker", (outcome,))) == [True]


class Works:
    """A module with an app in a folder of its own, worked on by processes of `headrace work`."""

    def __init__(self, folder: Path, url: str, name: str, tasks: str) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._said = folder / "said.txt"
        self._said.touch()
        self._module = name
        (folder / f"{name}.py").write_text(OPENING + textwrap.dedent(tasks), encoding="utf-8")
        self._environment = {"JOBS_URL": url, "JOBS_NAME": name, "JOBS_SAID": str(self._said)}
        os.environ.update(self._environment)
        sys.path.insert(0, str(folder))
        try:
            self.app: Headrace = importlib.import_module(name).app
        finally:
            sys.path.remove(str(folder))

    def start(self, *arguments: str, wait: bool = True) -> subprocess.Popen[bytes]:
        """One more worker; returns once it has registered, unless told not to wait."""
        command = [sys.executable, "-m", "headrace.cli", "--app", f"{self._module}:app", "work", *arguments]
        with (self.folder / f"worker-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=self.folder, stderr=log, env={**os.environ, **self._environment})
        self.processes.append(process)
        number = len(self.processes) - 1
        if wait:
            self._wait(lambda: " started on " in self.log(number), 30, "the worker's start")
        return process

    def log(self, number: int) -> str:
        return (self.folder / f"worker-{number}.log").read_text(errors="replace")

    @property
    def said(self) -> list[str]:
        """What the handlers wrote, line by line."""
        return self._said.read_text().splitlines()

    def wait_for(self, line: str, times: int = 1, seconds: float = 30) -> None:
        self._wait(lambda: self.said.count(line) >= times, seconds, f"{line!r} of the handlers")

    def _wait(self, predicate: Callable[[], bool], seconds: float, what: str) -> None:
        try:
            wait_until(predicate, seconds, what)
        except AssertionError as error:
            for number, process in enumerate(self.processes):
                error.add_note(f"worker {number}, exit code {process.poll()}:\n{self.log(number)}")
            raise

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.app.close()
        sys.modules.pop(self._module, None)
