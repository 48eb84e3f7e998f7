"""Several processes on one SQLite file, killed at will: nothing is lost, nothing breaks, nobody is told of locks."""

import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver
from headrace.stores.sqlite import SQLiteStore
from tests.process.sqlite_processes import Start, assert_sound, ended_well, needs_fork, processes, words
from tests.process.sqlite_roles import job
from tests.waiting import wait_until


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with processes(tmp_path) as start:
        yield start


@pytest.fixture
def driver(sqlite_path: Path) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(sqlite_path, SQLiteStore())
    yield driver
    driver.close()


def left(driver: SQLiteDriver) -> int:
    return sum(view.ready + view.running + view.scheduled for view in driver.run(ops.Queues()))


def test_six_processes_share_one_file(start: Start, driver: SQLiteDriver, sqlite_path: Path) -> None:
    """B132: two producers, four workers with heartbeats; no "locked" error comes out, every job is done once."""
    producers = [start("produce", sqlite_path, name, 2000) for name in ("a", "b")]
    workers = [start("work", sqlite_path, f"w{n}") for n in range(4)]
    for producer in producers:
        ended_well(producer)
    wait_until(lambda: left(driver) == 0, 60)
    for worker in workers:
        ended_well(worker)
    done = Counter(itertools.chain.from_iterable(map(words, workers)))
    assert done == Counter(f"{name}-{n}" for name in ("a", "b") for n in range(2000))
    assert_sound(sqlite_path)


def test_kills_break_nothing_and_lose_nothing(start: Start, driver: SQLiteDriver, sqlite_path: Path) -> None:
    """B133: four processes write and fold the log as often as they can; ten times over, one is killed."""
    chance = random.Random(133)
    acknowledged: set[str] = set()
    running = []
    for turn in range(10):
        while len(running) < 4:
            running.append(start("churn", sqlite_path, f"c{turn}-{len(running)}-{chance.randrange(10**6)}", 20))
        wait_until(lambda: all(len(words(process)) > 50 + chance.randrange(50) for process in running), 60)
        victim = running.pop(chance.randrange(len(running)))
        victim.kill()
        victim.wait()
        acknowledged.update(words(victim))
    for process in running:
        process.kill()
        process.wait()
        acknowledged.update(words(process))
    assert len(acknowledged) > 500
    assert_sound(sqlite_path)
    missing = [id for id in acknowledged if driver.run(ops.Get(id)) is None]
    assert not missing


@needs_fork
def test_forked_workers_use_handles_of_their_own(start: Start, driver: SQLiteDriver, sqlite_path: Path) -> None:
    """B133: open in the parent, fork workers, run 5,000 jobs, kill two: the file is sound, all jobs are done."""
    parent = start("fork_workers", sqlite_path, 4)
    children = [int(child) for child in wait_until(lambda: words(parent) if len(words(parent)) == 4 else [], 30)]
    for part in range(10):
        driver.run(ops.Enqueue(tuple(job(f"j{part}-{n}") for n in range(500))))
        if part in (3, 6):
            os.kill(children.pop(), signal.SIGKILL)

    def finished() -> bool:
        driver.run(ops.Rescue(("q",)))
        return left(driver) == 0

    wait_until(finished, 60)
    driver.run(ops.Enqueue((ops.NewJob("stop", "stop", "task", b""),)))
    ended_well(parent)
    ids = ["parent-before", "parent-after", *(f"j{part}-{n}" for part in range(10) for n in range(500))]
    assert {driver.run(ops.Cancel(id)) for id in ids} == {"finished"}
    assert_sound(sqlite_path)


@needs_fork
def test_a_fork_under_load_leaves_a_child_that_works(start: Start, driver: SQLiteDriver, sqlite_path: Path) -> None:
    """B121: whatever the parent's threads were doing, the child's enqueue returns within two seconds."""
    parent = start("fork_busily", sqlite_path, 20)
    ended_well(parent)
    said = words(parent)
    assert set(said[::2]) == {"0"}
    assert max(map(float, said[1::2])) < 2
    assert all(driver.run(ops.Get(f"child-{n}")) for n in range(20))
    assert_sound(sqlite_path)


@needs_fork
def test_a_child_that_outlives_its_parent_holds_locks_of_its_own(
    start: Start, driver: SQLiteDriver, sqlite_path: Path
) -> None:
    """B133: a process that comes and goes must not take the child's log away, as the last one on a file does."""
    parent = start("outlive", sqlite_path)
    ended_well(parent)
    wait_until(lambda: words(parent) == ["ready"], 30)
    driver.run(ops.Enqueue((job("visitor"),)))
    driver.close()
    driver.run(ops.Enqueue((job("go-on"),)))
    wait_until(lambda: words(parent) == ["ready", "done"], 30)
    assert all(driver.run(ops.Get(id)) for id in ("parent", "child-before", "visitor", "go-on", "child-after"))
    assert_sound(sqlite_path)


def test_many_processes_create_one_file_at_once(start: Start, driver: SQLiteDriver, sqlite_path: Path) -> None:
    at = time.time() + 1.5
    starters = [start("prepare", sqlite_path, at) for _ in range(8)]
    for starter in starters:
        ended_well(starter)
    assert len(driver.run(ops.List(State.READY)).jobs) == 8
    assert_sound(sqlite_path)
