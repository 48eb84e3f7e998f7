"""Sockets beside the file are the hint, the file's version is the truth."""

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver, wakeup
from headrace.stores.sqlite import SQLiteStore
from tests.process.sqlite_processes import ROOT
from tests.process.sqlite_roles import job
from tests.waiting import await_until, wait_until

needs_sockets = pytest.mark.skipif(not wakeup.sockets_exist(), reason="no Unix sockets here")


@pytest.fixture
def path() -> Iterator[Path]:
    """A short one: tmp_path may be too long for a socket's address."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "jobs.db"


@pytest.fixture
def driver(path: Path) -> Iterator[SQLiteDriver]:
    driver = SQLiteDriver(path, SQLiteStore())
    yield driver
    driver.close()


def enqueue(id: str, queue: str = "q", delay_us: int = 0) -> ops.Enqueue:
    return ops.Enqueue((ops.NewJob(id, queue, "task", b"", delay_us=delay_us),))


async def rings(listener: wakeup.SQLiteWakeup) -> bool:
    """Whether a hint is there, without asking the file."""
    return await listener._rung(0)


@needs_sockets
async def test_an_idle_worker_hears_of_a_job_at_once(driver: SQLiteDriver) -> None:
    """Promise 6: under 50 ms at the median; measured on a quiet machine, a millisecond or two."""
    listener = driver.wakeup("w", ("q",))
    took = []
    for number in range(1, 31):
        asked = asyncio.Event()

        async def enqueue_soon(id: str = f"{number}", asked: asyncio.Event = asked) -> float:
            await asked.wait()
            started = time.perf_counter()
            await asyncio.to_thread(driver.run, enqueue(id))
            return started

        task = asyncio.create_task(enqueue_soon())
        waiting = asyncio.create_task(listener.wait(10))
        await asyncio.sleep(0)
        asked.set()
        assert await waiting
        claimed = await driver.arun(ops.Claim("w", number, ("q",), 1, 10**7))
        assert [each.id for each in claimed.jobs] == [f"{number}"]
        took.append(time.perf_counter() - await task)
    assert statistics.median(took) < 0.05
    await listener.aclose()


@needs_sockets
async def test_a_hint_from_another_process_arrives(driver: SQLiteDriver) -> None:
    listener = driver.wakeup("w", ("q",))
    waiting = asyncio.create_task(listener._rung(30))
    produce = [sys.executable, "-m", "tests.process.sqlite_roles", "produce", str(driver.path), "x", "1"]
    done = await asyncio.to_thread(subprocess.run, produce, cwd=ROOT, check=True, capture_output=True)
    assert done.stdout == b"x-0\n"
    assert await waiting
    await listener.aclose()


@needs_sockets
async def test_a_hint_that_came_before_the_wait_is_not_lost(driver: SQLiteDriver) -> None:
    listener = driver.wakeup("w", ("q",))
    for n in range(100):  # more than a socket holds
        driver.run(enqueue(f"{n}"))
    assert await rings(listener)
    assert not await rings(listener)
    await listener.aclose()


@needs_sockets
async def test_only_workers_of_the_queue_are_rung_and_all_of_them(driver: SQLiteDriver) -> None:
    many = tuple(f"queue {n}" for n in range(20))
    listeners = [driver.wakeup("w", queues) for queues in (("q",), ("a", "q"), ("a",), ("a", "b"), (*many, "q"))]
    driver.run(enqueue("1"))
    assert [await rings(listener) for listener in listeners] == [True, True, False, False, True]
    driver.run(enqueue("2", delay_us=10**9))
    assert [await rings(listener) for listener in listeners] == [False] * 5
    claimed = driver.run(ops.Claim("w", 1, ("q",), 1, 10**7)).jobs
    assert not await rings(listeners[0])
    back = tuple(ops.Outcome(each.id, each.queue, each.token, State.READY) for each in claimed)
    driver.run(ops.Settle("w", back))
    assert [await rings(listener) for listener in listeners] == [True, True, False, False, True]
    for listener in listeners:
        await listener.aclose()
        await listener.aclose()
    assert not wakeup.place(driver.path).exists()


@needs_sockets
async def test_a_claim_that_leaves_jobs_rings_again(driver: SQLiteDriver) -> None:
    listener = driver.wakeup("w", ("q",))
    driver.run(ops.Enqueue(tuple(job(f"{n}") for n in range(5))))
    assert await rings(listener)
    assert driver.run(ops.Claim("other", 1, ("q",), 2, 10**7)).more
    assert await rings(listener)
    assert not driver.run(ops.Claim("other", 2, ("q",), 3, 10**7)).more
    assert not await rings(listener)
    await listener.aclose()


@needs_sockets
async def test_the_socket_of_a_killed_worker_is_taken_away(driver: SQLiteDriver) -> None:
    listener = driver.wakeup("w", ("q",))
    dead = wakeup.place(driver.path) / "999999-0-any"
    make_dead(dead)
    wait_until(lambda: driver.run(enqueue(f"{time.monotonic_ns()}")) and not dead.exists())
    assert await rings(listener)
    await listener.aclose()


def make_dead(address: Path) -> None:
    """A bound address with nobody behind it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(address))
    assert address.exists()


@needs_sockets
async def test_a_long_path_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    """An address holds 108 bytes; the directory is ours alone, and one for all names of the file."""
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(directory / "jobs.db")
    driver, through = SQLiteDriver(directory / "jobs.db", SQLiteStore()), SQLiteDriver(link, SQLiteStore())
    listener = driver.wakeup("w", ("q",))
    sockets = wakeup.place(directory / "jobs.db")
    assert sockets.parent == Path(tempfile.gettempdir())
    assert (sockets.stat().st_mode & 0o777, len(list(sockets.iterdir()))) == (0o700, 1)
    through.run(enqueue("a"))
    assert await rings(listener)
    await listener.aclose()
    assert not sockets.exists()
    driver.close()
    through.close()


async def test_the_file_tells_where_hints_are_lost(driver: SQLiteDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on platforms without Unix sockets (B123)."""
    monkeypatch.setattr(wakeup, "sockets_exist", lambda: False)
    monkeypatch.setattr(wakeup, "POLL_S", 0.05)
    listener = driver.wakeup("w", ("q",))
    other = SQLiteDriver(driver.path, SQLiteStore())
    assert not await listener.wait(0.2)
    other.run(enqueue("a"))
    assert await listener.wait(10)
    assert not await listener.wait(0.2)
    await driver.arun(enqueue("b"))
    assert await listener.wait(10)
    await listener.aclose()
    other.close()


@needs_sockets
async def test_a_wait_may_be_cancelled_and_waited_again(driver: SQLiteDriver) -> None:
    listener = driver.wakeup("w", ("q",))
    waiting = asyncio.create_task(listener.wait(30))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waiting = asyncio.create_task(listener.wait(30))
    threading.Thread(target=driver.run, args=(enqueue("a"),)).start()
    assert await waiting
    await listener.aclose()


async def test_an_outage_is_waited_out(driver: SQLiteDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup, "POLL_S", 0.05)
    driver.run(enqueue("a"))
    driver.close()
    kept = driver.path.read_bytes()
    driver.path.write_bytes(b"no database at all, for a while " * 200)
    listener = driver.wakeup("w", ("q",))
    assert await listener.wait(0.2) in (True, False)
    driver.path.write_bytes(kept)
    driver.run(enqueue("b"))
    await await_until(lambda: listener.wait(0.1))
    await listener.aclose()


@needs_sockets
async def test_two_containers_on_one_volume_do_not_take_each_others_socket(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both, the worker is process 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    one, other = (wakeup.SQLiteWakeup(path, ("q",), never_changes) for _ in range(2))
    bell = wakeup.Bell(path)
    bell.ring(["q"])
    assert (await rings(one), await rings(other)) == (True, True)
    await one.aclose()
    bell.ring(["q"])
    assert await rings(other)
    bell.close()
    await other.aclose()


async def never_changes() -> int:
    return 0
