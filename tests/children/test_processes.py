"""Whole workers with children, on SQLite: killed, told to stop, interrupted at the terminal, started as a script."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.task import Task
from tests.children import jobs
from tests.children.test_ends import gone
from tests.children.test_runs import lines
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE = 45.0
Start = Callable[..., "subprocess.Popen[bytes]"]


class Scene:
    """A store, a file that handlers write to, and workers."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "said")
        self.app = Headrace(f"sqlite:///{folder / 'jobs.db'}", lease=3, heartbeat=0.2, busy_timeout=1)
        self.environment = {**os.environ, "TESTS_CHILDREN_URL": self.app.config.url}
        self._started: list[subprocess.Popen[bytes]] = []
        self.log = folder / "log"

    def task(self, task: Task[..., Any]) -> Task[..., Any]:
        """The same task, in this store."""
        return self.app.task(name=task.name, run_in=task.run_in, keep=jobs.KEEP)(task.function)

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """In a process group of its own, as a shell starts a program at the terminal."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=self.environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def work(self, *options: str) -> "subprocess.Popen[bytes]":
        return self.start("-m", "headrace", "work", "--app", "tests.children.jobs:app", "--processes", "2", *options)

    def begun(self, times: int = 1) -> list[str]:
        """Wait for so many runs; the last one's words."""
        wait_until(lambda: self.count() >= times, PATIENCE, f"{times} runs; {self.log.read_text()}")
        return [words for words in lines(self.path) if words[0] == "begin"][-1]

    def count(self) -> int:
        return sum(words[0] == "begin" for words in lines(self.path))

    def state(self, id: str) -> tuple[str, int, int]:
        job = self.app.jobs.get(id)
        assert job is not None
        return job.state.value, job.counts["crashes"], job.counts["attempts"]

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.app.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    try:
        yield scene
    finally:
        scene.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child that holds the interpreter outlives its worker")
def test_children_die_with_a_worker_that_is_killed(scene: Scene) -> None:
    """B020: even while they hear nothing; the crash is the worker's, and the next worker runs the job again."""
    worker = scene.work()
    id = scene.task(jobs.wait).enqueue(path=scene.path, stubborn=True).id
    _, pid, group = scene.begun()
    assert pid == group  # a group of its own, so that what it starts can be ended with it
    worker.kill()
    worker.wait()
    wait_until(lambda: gone(pid), what="the end of the child")
    scene.work()
    assert scene.begun(2)[1] != pid
    assert scene.state(id) == ("running", 1, 0)


def test_the_terminal_and_a_service_manager_stop_the_worker_only(scene: Scene) -> None:
    """Ctrl-C goes to the whole group, SIGTERM of a service manager to each of its processes: children go on."""
    worker = scene.work("--grace", "60s")
    id = scene.task(jobs.obey).enqueue(path=scene.path).id
    _, pid, _ = scene.begun()
    os.killpg(worker.pid, signal.SIGINT)
    os.kill(int(pid), signal.SIGINT)
    os.kill(int(pid), signal.SIGTERM)
    Path(scene.path + ".go").touch()
    assert worker.wait(PATIENCE) == 0
    assert scene.state(id) == ("succeeded", 0, 0)
    assert gone(pid)


def test_a_handler_enqueues_with_a_connection_of_its_own(scene: Scene) -> None:
    worker = scene.work("--burst")
    scene.task(jobs.overreach).enqueue(what="enqueue", path=scene.path)
    assert worker.wait(PATIENCE) == 0
    assert [words[0] for words in lines(scene.path)] == ["from"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_worker_that_starts_itself_anew_leaves_no_dead_behind(scene: Scene) -> None:
    """B115: neither its children nor what multiprocessing starts beside them, however often it does."""
    worker = scene.work("--max-jobs", "1")
    task = scene.task(jobs.note)
    for text in ("one", "two"):
        task.enqueue(path=scene.path, text=text)
    wait_until(lambda: len(lines(scene.path)) == 2, PATIENCE)
    log = scene.log
    wait_until(lambda: log.read_text().count(" started on ") == 3, PATIENCE)
    own = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    wait_until(lambda: not any(map(gone, own.read_text().split())), what="no zombie")
    assert worker.poll() is None


def test_a_running_job_is_cancelled_from_another_process(scene: Scene) -> None:
    """B110: the worker hears of it with its next heartbeat; the process has gone when the job is cancelled."""
    scene.work("--soft-grace", "0.2s")
    id = scene.task(jobs.wait).enqueue(path=scene.path, stubborn=True).id
    _, pid, _ = scene.begun()
    assert scene.app.jobs.cancel(id) == "requested"
    wait_until(lambda: scene.state(id)[0] == "cancelled", PATIENCE)
    assert scene.state(id) == ("cancelled", 0, 0)
    assert gone(pid)


SCRIPT = """
import asyncio, os
from headrace import Headrace
from tests.children.jobs import say

app = Headrace(os.environ["TESTS_CHILDREN_URL"])

@app.task(run_in="process")
def tell(path: str) -> None:
    say(path, __name__, tell.name, os.getpid())

async def main() -> None:
    await tell.aenqueue(os.environ["SAID"])
    await app.worker(processes=1, burst=True).run()
    await app.aclose()

if __name__ == "__main__":
    print(os.getpid(), flush=True)
    asyncio.run(main())
"""


def test_tasks_of_a_script_run_in_children_too(scene: Scene, tmp_path: Path) -> None:
    """As multiprocessing does it: the script is run again, under another name, and what is guarded is not."""
    script = tmp_path / "shop.py"
    script.write_text(SCRIPT)
    scene.environment |= {"SAID": scene.path, "PYTHONPATH": str(ROOT)}
    process = scene.start(str(script))
    assert process.wait(PATIENCE) == 0
    ((name, task, pid),) = lines(scene.path)
    assert (name, task) == ("__mp_main__", "shop.tell")
    assert int(pid) != process.pid


def test_a_script_without_a_guard_starts_no_worker_in_its_children(scene: Scene, tmp_path: Path) -> None:
    """They import it as well."""
    script = tmp_path / "shop.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    scene.environment |= {"SAID": scene.path, "PYTHONPATH": str(ROOT)}
    scene.start(str(script))
    wait_until(lambda: "before it was ready" in scene.log.read_text(), PATIENCE, "the child's end")
    said = scene.log.read_text()
    assert "ConfigError: a worker was started by the mere import of a module" in said
    assert 'put what starts it under  if __name__ == "__main__":' in said
    assert not Path(scene.path).exists()
