"""Starts workers as processes of their own, watches them, stops and kills them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.core.operations import Leave
from headrace.errors import StoreUnavailable
from headrace.jobinfo import JobInfo
from tests.process.apps.scene import VARIABLE, Scene, Settings
from tests.process.apps.tasks import Tasks, define
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 45.0  # seconds: the machine may be loaded; nothing here takes so long by itself


class WorkerProcess:
    """One `headrace work`."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log
        self.pid = process.pid

    @property
    def log(self) -> str:
        """What it has written to its standard error."""
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP: for the others, it is dead. Returns when all its threads stand still."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM."""
        self.signal(signal.SIGTERM)

    def ended(self, timeout: float = PATIENCE) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait(timeout)

    def stop(self) -> None:
        """SIGTERM, and a good end."""
        self.terminate()
        code = self.ended()
        assert code == 0, f"exit code {code}\n{self.log}"

    def wait_for_log(self, text: str, times: int = 1) -> None:
        """Wait until `text` is in its log so many times."""
        try:
            wait_until(lambda: self.log.count(text) >= times, PATIENCE, f"{text!r} in the log")
        except AssertionError as error:
            error.add_note(self.log)
            raise


class Crew:
    """The workers of one test, with the tasks to give them and the notes they leave."""

    def __init__(self, settings: Settings) -> None:
        self.scene = Scene(settings)
        self.app = self.scene.app
        self.tasks: Tasks = define(self.scene)
        self.all: list[WorkerProcess] = []

    def start(self, *arguments: str, ready: bool = True, **changes: Any) -> WorkerProcess:
        """One worker more, up and running; `changes` are settings of its own: faults, version, url."""
        settings = replace(self.scene.settings, **changes)
        log = self.scene.folder / f"worker-{len(self.all)}.log"
        command = [sys.executable, "-m", "headrace.cli", "work", "--app", "tests.process.apps.plain:app", *arguments]
        environment = {**os.environ, VARIABLE: msgspec.json.encode(settings).decode()}
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stderr=stderr)
        worker = WorkerProcess(process, log)
        self.all.append(worker)
        if ready:
            worker.wait_for_log(" started on ")
        return worker

    def wait_for(self, what: str, times: int = 1, **fields: Any) -> list[dict[str, Any]]:
        """Wait until a note was left so many times."""
        return self.watch(
            lambda: found if len(found := self.scene.notes(what, **fields)) >= times else [], f"{what} {fields}"
        )

    def watch(self, predicate: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
        """Wait for something; the logs of all workers explain why it did not come."""
        try:
            return wait_until(predicate, timeout, what)
        except AssertionError as error:
            for number, worker in enumerate(self.all):
                error.add_note(f"-- worker {number}, pid {worker.pid}\n{worker.log[-3000:]}")
            raise

    def job(self, id: str) -> JobInfo:
        """A job that must be there, in some state: a job is never missing."""
        found = self.app.jobs.get(id)
        assert found is not None, f"job {id} is in no state at all"
        return found

    def wait_for_state(self, id: str, *states: str) -> JobInfo:
        """Wait until it is in one of `states`."""
        self.watch(lambda: self.job(id).state in states, f"job {id} to be {' or '.join(states)}")
        return self.job(id)

    def starts(self, id: str) -> int:
        """How many runs of a job have begun."""
        return len(self.scene.notes("start", job=id))

    def freeze(self, worker: WorkerProcess) -> None:
        """SIGSTOP between two writes: frozen in the middle of one, on SQLite it would keep the file locked for all."""

        def frozen_well() -> bool:
            worker.freeze()
            try:
                self.app.driver.run(Leave("nobody", ("default",)))
            except StoreUnavailable:
                worker.thaw()
                return False
            return True

        self.watch(frozen_well, "a moment at which nothing is locked")

    def of(self, note: dict[str, Any]) -> WorkerProcess:
        """The worker that left a note."""
        return next(worker for worker in self.all if worker.pid == note["pid"])


@contextmanager
def crew(settings: Settings) -> Iterator[Crew]:
    """A crew; whoever still runs at the end is killed."""
    made = Crew(settings)
    try:
        yield made
    finally:
        for worker in made.all:
            if worker.running:
                worker.kill()
        made.app.close()
